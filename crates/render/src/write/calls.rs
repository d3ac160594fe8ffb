//! What the holes `calls`, `call`, `arguments` print.

use rolecall_conversation::Call;
use rolecall_format::codec::{call, python};
use rolecall_format::{Codec, Slot, sources};
use rolecall_text::Text;

use super::{Scene, Writer, json_layout};

impl Writer<'_> {
    pub(super) fn calls(&mut self, scene: &Scene<'_>, out: &mut Text) {
        let Some((_, message)) = scene.message() else { return };
        for (at, call) in message.calls().enumerate() {
            if at > 0
                && let Some(layout) = self.format.layout(Slot::CallSeparator)
            {
                let _ = self.steps(layout.steps(), scene, out);
            }
            let slot = match call {
                Call::Function { .. } => Slot::Call,
                Call::CodeInterpreter { .. } => Slot::CallInterpreter,
            };
            if let Some(layout) = self.format.layout(slot) {
                let scene = Scene { call: Some((at, call)), ..*scene };
                let _ = self.steps(layout.steps(), &scene, out);
            }
        }
    }

    pub(super) fn call(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        if let (Some((at, Call::Function { name, arguments, .. })), Codec::Call(keys)) = (scene.call, codec) {
            let name_source = self.call_source(scene, at, "function.name");
            let arguments_source = self.call_source(scene, at, "function.arguments");
            keys.print(out, sources::FORMAT, (name, name_source), (arguments, arguments_source));
        }
    }

    pub(super) fn arguments(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let Some((at, Call::Function { arguments, .. })) = scene.call else { return };
        let source = self.call_source(scene, at, "function.arguments");
        match codec {
            Codec::Json { indent } => call::print_arguments(out, arguments, &json_layout(*indent), source),
            // Arguments were parsed when the message was made.
            _ => out.push(&python::print(&arguments.to_object().unwrap_or_default()), source),
        }
    }
}
