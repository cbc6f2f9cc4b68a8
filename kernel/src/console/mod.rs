//! The console: serial lines and the screen, as `console=` names them or as they
//! are found. All of them get all text; lines are read from the serial ones.

pub mod choice;
pub mod ring;
pub mod screen;
pub mod uart;

#[cfg(target_os = "none")]
mod machine;
#[cfg(target_os = "none")]
mod surface;
#[cfg(target_os = "none")]
pub use machine::*;
