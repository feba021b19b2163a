//! Tasks of the runtime.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task. All tasks are of one type: the runtime's code for a task is compiled here once, and not again for
/// every future of every caller.
pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    spawn_boxed(Box::pin(task))
}

fn spawn_boxed(task: Pin<Box<dyn Future<Output = ()> + Send>>) -> JoinHandle<()> {
    tokio::spawn(task)
}
