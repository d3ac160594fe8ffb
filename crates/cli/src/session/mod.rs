//! Sessions for the command line.
//!
//! `play` reads a script line by line: `script` reads a step, `player` performs it. `row` writes the
//! result as JSON, and `page` draws it for people. `rollout` draws a whole session turn by turn, and
//! `written` ids by their author. Start reading at `play`.

mod page;
mod play;
mod player;
mod rollout;
mod row;
mod script;
mod written;

pub use page::draw_played;
pub use play::play;
pub use player::{Done, Player};
pub use rollout::draw_rollout;
pub use row::of_played;
pub use script::BadStep;
