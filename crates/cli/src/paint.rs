//! Styles, which the library draws, and when to use them.

use clap::ValueEnum;

pub use rolecall::explain::{Paint, Style};

/// When to use colors.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}
