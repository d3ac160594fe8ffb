//! Loads chat formats.
//!
//! The input is a format file (TOML, see `formats/README.md`). The output is a [`Format`]: its
//! layouts, control tokens, rules and defaults. `load` reads and checks a file and reports every
//! mistake with its position, `layout` parses patterns, and `codec` prints values. A [`Registry`]
//! finds formats by name or by model.
//!
//! Start reading at [`Format`].

mod call_ids;
mod check;
mod code_result;
pub mod codec;
mod control;
mod correction;
mod defaults;
mod diagnostic;
mod field;
mod format;
mod format_part;
mod gaps;
mod generation;
mod habits;
mod header;
mod identity;
mod layout;
mod load;
mod option;
mod pattern;
mod registry;
mod reply_files;
mod rules;
mod shared_calls;
mod slot;
pub mod sources;
mod tag;
mod write;

pub use call_ids::{CallIds, IdPattern};
pub use code_result::CodeResult;
pub use codec::Codec;
pub use control::{BoundaryToken, Control, ControlId, InText};
pub use correction::{correction_sources, corrections};
pub use defaults::{Defaults, SystemWhen};
pub use diagnostic::{Diagnostic, LoadError};
pub use field::Field;
pub use format::{Format, stops};
pub use format_part::FormatPart;
pub use generation::Generation;
pub use habits::{CallsInReasoning, Habits};
pub use header::Header;
pub use identity::Identity;
pub use layout::{Layout, Op, PlainTurn, Step};
pub use load::load;
pub use option::Choice;
pub use pattern::Pattern;
pub use registry::{Fit, NameClash, Registry, ResolveError, builtin, builtin_sources};
pub use reply_files::{reply_files, reply_format};
pub use rules::{
    AnswersRule, AssistantRule, BlankSystem, EndingRule, HeaderRule, LossRule, RolesRule, Rules, SystemRule,
    SystemWithTools, ToolRule, ToolTexts, ToolsPlace, TurnsRule, UsersRule,
};
pub use shared_calls::{SHARED_CALL_SLOTS, shared_calls};
pub use slot::Slot;
pub use tag::{is_clear_tag, tag_length, tags};
pub use write::write_reply;
