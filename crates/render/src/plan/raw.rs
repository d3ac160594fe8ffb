//! Assistant messages that hold the model's raw output.

use rolecall_conversation::{Content, Message, Place};
use rolecall_format::codec::is_python_space;
use rolecall_format::{ControlId, Op, Slot};

use super::{Planner, What};
use crate::Error;

impl<'a> Planner<'_, 'a> {
    /// Adds a message whose content is raw model output with several turns. Each becomes a separate
    /// turn.
    pub(super) fn raw_output(&mut self, index: usize, message: &'a Message) -> Result<(), Error> {
        let fixed = |id: ControlId| self.format.control(id).text.clone();
        let layouts = self.format.layout(Slot::Assistant).zip(self.format.layout(Slot::Generate));
        let opening = layouts.and_then(|(_, generate)| match generate.ops() {
            [Op::Control(id)] => Some(fixed(*id)),
            _ => None,
        });
        let (Some((layout, _)), Some(opening), Content::Text(content)) = (layouts, opening, message.content()) else {
            let help = "send the call as `tool_calls`";
            return self.no_place(Place::message(index, "content"), "raw model output", help);
        };
        // The model's output begins after the generation prompt.
        for turn in content.split(opening.as_str()) {
            let Some(values) = layout.read_behind(&opening, turn, fixed) else {
                return Err(Error::BadRawOutput { message: index, layout: Slot::Assistant.key() });
            };
            let trimmed = values.into_iter().map(|(field, value)| (field, value.trim_matches(is_python_space)));
            self.plan.readings.push(trimmed.collect());
            let reading = self.plan.readings.len() - 1;
            self.turn(Slot::Assistant, Slot::Assistant, What::Raw(index, reading), turn.len());
        }
        Ok(())
    }
}
