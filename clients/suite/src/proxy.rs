//! A TCP proxy that can hold back what the server answers.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

/// A proxy of one address. It ends with the process.
pub(crate) struct Proxy {
    address: SocketAddr,
    gate: Arc<Gate>,
}

#[derive(Default)]
struct Gate {
    closed: Mutex<bool>,
    opened: Condvar,
    stopped: AtomicBool,
    held_back: AtomicU64,
}

impl Gate {
    /// Waits while the gate is closed.
    fn pass(&self) {
        let mut closed = self.closed.lock().expect("no user panics");
        if *closed {
            self.held_back.fetch_add(1, Ordering::Relaxed);
        }
        while *closed {
            closed = self.opened.wait(closed).expect("no user panics");
        }
    }
}

impl Proxy {
    pub(crate) fn start(server: SocketAddr) -> Proxy {
        let address = suffrage_testbed::address();
        let listener = TcpListener::bind(address).expect("the address is free");
        let gate = Arc::new(Gate::default());
        let shared = Arc::clone(&gate);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if shared.stopped.load(Ordering::Relaxed) {
                    return;
                }
                let Ok(server) = TcpStream::connect(server) else { continue };
                let copies = (client.try_clone().expect("a copy"), server.try_clone().expect("a copy"));
                let gate = Arc::clone(&shared);
                thread::spawn(move || forward(client, server, None));
                thread::spawn(move || forward(copies.1, copies.0, Some(&gate)));
            }
        });
        Proxy { address, gate }
    }

    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Holds back what the server answers from now on.
    pub(crate) fn hold_back(&self) {
        *self.gate.closed.lock().expect("no user panics") = true;
    }

    /// How many pieces were held back.
    pub(crate) fn held_back(&self) -> u64 {
        self.gate.held_back.load(Ordering::Relaxed)
    }

    /// Lets everything pass, also what was held back.
    pub(crate) fn let_pass(&self) {
        *self.gate.closed.lock().expect("no user panics") = false;
        self.gate.opened.notify_all();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.let_pass();
        self.gate.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener.
        _ = TcpStream::connect(self.address);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream, gate: Option<&Gate>) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if let Some(gate) = gate {
            gate.pass();
        }
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    _ = to.shutdown(Shutdown::Both);
    _ = from.shutdown(Shutdown::Both);
}
