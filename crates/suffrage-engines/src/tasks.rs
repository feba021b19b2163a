//! Tasks of the runtime.

use std::pin::Pin;

use tokio::task::JoinHandle;

/// Starts a task. All tasks are of one type: the runtime's code for a task is compiled once, and not again for every
/// future.
pub(crate) fn spawn(task: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
    let task: Pin<Box<dyn Future<Output = ()> + Send>> = Box::pin(task);
    tokio::spawn(task)
}
