//! What the programs `suffrage` and `suffrage-lab` share: where output goes ([`Console`]), errors with exit codes
//! ([`Error`]), times and lists as text ([`text`]), and the demo of real processes ([`demo`]).

mod console;
pub mod demo;
mod error;
pub mod text;

pub use console::Console;
pub use error::Error;
