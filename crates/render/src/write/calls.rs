//! The holes `calls`, `call`, `arguments`, `key` and `value`.

use std::borrow::Cow;

use rolecall_conversation::json::Object;
use rolecall_conversation::{Arguments, Call, Json};
use rolecall_format::codec::kinds::{Kind, Words};
use rolecall_format::codec::{PrintedValue, Spelling, literal};
use rolecall_format::{Codec, ControlId, Slot, sources};
use rolecall_text::{Source, Text};

use super::{PromptWriter, Scene, quoted_by};

impl PromptWriter<'_> {
    pub(super) fn calls(&mut self, scene: &Scene<'_>, out: &mut Text) {
        let Some((_, message)) = scene.message() else { return };
        if let Some(layout) = self.format.layout(Slot::Calls).filter(|_| !scene.around_calls) {
            if message.calls().len() > 0 {
                let _ = self.steps(layout.steps(), &Scene { around_calls: true, ..*scene }, out);
            }
            return;
        }
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
        if *codec == Codec::Text {
            return self.each_argument(&object_of(arguments), scene, out);
        }
        let Some(syntax) = codec.value_syntax() else { return };
        let source = self.call_source(scene, at, "function.arguments");
        if let Spelling::Json(style) = syntax.spelling()
            && style.indent.is_some()
        {
            let value = Json::Object(object_of(arguments).into_owned());
            if !self.may_indent(&style, &value, 0, || scene.arguments_place(at)) {
                return;
            }
        }
        syntax.print_arguments(arguments, &mut |piece| self.printed(piece, source, out));
    }

    fn each_argument(&mut self, arguments: &Object, scene: &Scene<'_>, out: &mut Text) {
        for (number, (key, value)) in arguments.iter().enumerate() {
            if number > 0
                && let Some(layout) = self.format.layout(Slot::ArgumentSeparator)
            {
                let _ = self.steps(layout.steps(), scene, out);
            }
            let own = self.format.layout(Slot::ArgumentString).filter(|_| value.as_str().is_some());
            if let Some(layout) = own.or(self.format.layout(Slot::Argument)) {
                let _ = self.steps(layout.steps(), &Scene { argument: Some((key, value)), ..*scene }, out);
            }
        }
    }

    pub(super) fn key(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let (Some((at, _)), Some((key, _))) = (scene.call, scene.argument) else { return };
        let source = self.call_source(scene, at, "function.arguments");
        out.push(&quoted_by(key, codec), source);
    }

    pub(super) fn value(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let (Some((at, _)), Some((key, value))) = (scene.call, scene.argument) else { return };
        let source = self.call_source(scene, at, &format!("function.arguments.{key}"));
        let Some(syntax) = codec.value_syntax() else {
            return out.push(super::text_by(&literal::print(value), codec), source);
        };
        if let Spelling::Json(style) = syntax.spelling()
            && !self.may_indent(&style, value, 0, || scene.arguments_place(at))
        {
            return;
        }
        syntax.print(value, &mut |piece| self.printed(piece, source, out));
    }

    /// Writes the kind of the argument's value.
    pub(super) fn kind(&mut self, codec: &Codec, scene: &Scene<'_>, out: &mut Text) {
        let Some((_, value)) = scene.argument else { return };
        let usual;
        let words = match codec {
            Codec::Kinds(words) => words,
            _ => {
                usual = Words::default();
                &usual
            }
        };
        out.push(words.of(Kind::of(value)), sources::FORMAT);
    }

    /// Returns the index of the first call of a message.
    pub(super) fn first_index(&mut self, codec: &Codec, scene: &Scene<'_>) -> usize {
        let Codec::From(count) = codec else { return 0 };
        let earlier = match (count.over_conversation, scene.message()) {
            (true, Some((index, _))) => self.calls_before(index),
            _ => 0,
        };
        count.first + earlier
    }

    /// Writes a piece of a printed value. A marker is written as a control token if the format has
    /// one with that text.
    fn printed(&self, piece: PrintedValue<'_>, source: Source, out: &mut Text) {
        match piece {
            PrintedValue::Value(text) => out.push(text, source),
            PrintedValue::Format(text) => out.push(text, sources::FORMAT),
            PrintedValue::Marker(text) => {
                match self.format.controls.iter().position(|control| control.text == text).map(ControlId) {
                    Some(id) => self.control(id, out),
                    None => out.push(text, sources::FORMAT),
                }
            }
        }
    }
}

/// Returns the arguments as an object. Text was validated as JSON when the message was built.
pub(super) fn object_of(arguments: Arguments<'_>) -> Cow<'_, Object> {
    match arguments {
        Arguments::Value(object) => Cow::Borrowed(object),
        other => Cow::Owned(other.to_object().unwrap_or_default()),
    }
}

/// Reports whether a call has any arguments.
pub(super) fn has_arguments(call: Call<'_>) -> bool {
    match call {
        Call::Function { arguments: Arguments::Value(object), .. } => !object.is_empty(),
        Call::Function { arguments, .. } => !object_of(arguments).is_empty(),
        Call::CodeInterpreter { .. } => false,
    }
}

/// Returns the code unchanged, or as a JSON string.
pub(super) fn code_by<'t>(code: &'t str, codec: &Codec) -> Cow<'t, str> {
    match codec {
        Codec::Json(style) => Cow::Owned(style.print(&Json::from(code))),
        codec => Cow::Borrowed(super::text_by(code, codec)),
    }
}
