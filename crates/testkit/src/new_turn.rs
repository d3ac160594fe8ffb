use rolecall::conversation::json::Object;
use rolecall::conversation::{Conversation, Message};
use rolecall::format::{Format, Registry};
use rolecall::loss::LossPolicy;
use rolecall::model::{BosBy, Purpose};
use rolecall::render::{Bos, Options, Writer};
use rolecall::{Error, Model, Prompt, Request};

/// Returns the new turn of a conversation, as a model of a single format renders it.
pub fn new_turn(format: &Format, conversation: Conversation, options: &Options) -> Result<Prompt, Error> {
    let mut registry = Registry::new();
    registry.replace(format.clone());
    let bos = if options.bos == Bos::LeaveToTokenizer { BosBy::Tokenizer } else { BosBy::Template };
    let model = Model::builder().registry(registry).format(format.name.clone()).bos(bos).rules(options.rules);
    let chosen = options.choices.iter();
    let model = chosen.fold(model, |model, (name, value)| model.option(name, value)).open();
    let model = model.unwrap_or_else(|error| panic!("{}: {error}", format.name));
    let request = Request { id: None, format: None, conversation, other: Object::new() };
    Ok(model.prompt_for(request, Purpose::NewTurn)?.into_prompt())
}

/// Returns the text that the model writes as the last answer of a conversation that ends with a
/// question: the part that carries loss. The loss may cover the whole turn, but the generation
/// prompt in `before`, the prompt of the question before, is given. The model also writes the white
/// space that the format trims.
pub fn last_answer(before: &Prompt, now: &Prompt, messages: &[Message], format: &Format) -> String {
    let conversation = Conversation::new(messages.to_vec());
    let learned = Writer::format(format.clone(), Options::default())
        .loss(now, &conversation, &[], &LossPolicy::assistant())
        .map(|loss| loss.ranges());
    let learned = learned.unwrap_or_else(|error| panic!("{}: {error}", format.name));
    let learned = learned.last().map_or("", |span| &now.text()[span.clone()]);
    let last = before.turns().last().filter(|turn| turn.message.is_none());
    let opening = last.map_or("", |turn| &before.text()[turn.start..]);
    let learned = learned.strip_prefix(opening).unwrap_or(learned);
    let answer = messages.iter().rev().nth(1).and_then(Message::text).unwrap_or_default();
    match learned.contains(&*answer) {
        true => learned.to_owned(),
        false => learned.replacen(answer.trim(), &answer, 1),
    }
}
