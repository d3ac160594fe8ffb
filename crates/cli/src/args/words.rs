//! Options whose values are words, or files of certain kinds. The library names them; the command
//! adds its help.

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use rolecall::dataset::Shape;
use rolecall::encode::Protect;
use rolecall::grammar::Reasoning;
use rolecall::loss::Edges;
use rolecall::model::BosBy;
use rolecall::parse::{CallsInReasoning, TextAfterCalls, UnclosedReasoning, UnknownNames};
use rolecall::render::RuleMode;
use rolecall::template::Forms;
use rolecall::tokenizer::FileKind;
use rolecall::training::{LossExemption, MissingStop, Samples, Truncate, Whose};

/// Returns a parser for the values with these words.
fn words<T: Copy + Send + Sync + 'static, const N: usize>(
    known: [(&'static str, T); N],
    help: fn(T) -> &'static str,
) -> impl TypedValueParser<Value = T> {
    let values = known.map(|(word, value)| PossibleValue::new(word).help(help(value)));
    PossibleValuesParser::new(values).try_map(move |found| {
        let value = known.iter().find(|(word, _)| *word == found);
        value.map(|(_, value)| *value).ok_or("unknown word")
    })
}

/// Returns the help of an argument that takes a tokenizer.
pub fn tokenizer(what: &str) -> String {
    format!("{what}: {}", FileKind::LIST)
}

pub fn samples() -> impl TypedValueParser<Value = Samples> {
    words(Samples::ALL, |samples| match samples {
        Samples::Whole => "One sample, rendered as a whole",
        Samples::Turns => "One sample per reply",
        Samples::AsServed => {
            "One sample as long as the template keeps what it wrote, and a new one after each change, so \
             that every reply follows what the server saw"
        }
    })
}

pub fn truncate() -> impl TypedValueParser<Value = Truncate> {
    words(Truncate::ALL, |truncate| match truncate {
        Truncate::Right => "Remove ids from the end",
        Truncate::Left => "Remove whole turns of the text from the start",
        Truncate::Oldest => {
            "Remove the oldest turns of the conversation and render the rest; system messages, tools, and \
             calls with their results stay whole"
        }
    })
}

pub fn whose() -> impl TypedValueParser<Value = Whose> {
    words(Whose::ALL, |whose| match whose {
        Whose::Assistant => {
            "Every assistant message, except those with `\"weight\": 0`, `\"loss\": false` or `\"train\": false`"
        }
        Whose::Last => "The last assistant message",
        Whose::Chosen => "Only assistant messages with a `weight`, `loss` or `train` that includes them",
        Whose::Tagged => "What the chat template marks with `{% generation %}`",
        Whose::All => "The whole text",
    })
}

pub fn edges() -> impl TypedValueParser<Value = Edges> {
    words(Edges::ALL, |edges| match edges {
        Edges::Any => "If any byte does, with the greatest weight among them",
        Edges::Strict => "If all bytes do, with the least weight among them",
    })
}

pub fn missing_stop() -> impl TypedValueParser<Value = MissingStop> {
    words(MissingStop::ALL, |missing| match missing {
        MissingStop::Append => "Append the model's stop token",
        MissingStop::Warn => "Warn",
        MissingStop::Refuse => "Refuse the conversation",
    })
}

pub fn allowed() -> impl TypedValueParser<Value = LossExemption> {
    words(LossExemption::ALL, |allowed| match allowed {
        LossExemption::MaskedStop => "A stop token without loss after a reply that carries loss",
        LossExemption::NoLoss => "A conversation in which nothing carries loss",
        LossExemption::NullWord => "A null content that the template writes as the word `None`, with loss",
    })
}

pub fn shape() -> impl TypedValueParser<Value = Shape> {
    words(Shape::ALL.map(|shape| (shape.name(), shape)), |shape| match shape {
        Shape::OpenAi => "OpenAI's `messages`, as in its API and its files for fine-tuning",
        Shape::Harmony => "Harmony's own JSON: messages with channels and recipients",
        Shape::ShareGpt => "`conversations` of `from` and `value`",
        Shape::Alpaca => "`instruction`, `input` and `output`",
        Shape::Completion => "`prompt` and `completion`",
        Shape::Preference => "`chosen` and `rejected`: gives a result for each, the better one first",
        Shape::Instances => "LMFlow's `instances`",
        Shape::Rounds => "XTuner's `conversation` of `input` and `output`",
        // The library may add values. The cases of `--help` show that one has no help.
        _ => "",
    })
}

pub fn protect() -> impl TypedValueParser<Value = Protect> {
    words(Protect::ALL, |protect| match protect {
        Protect::Control => {
            "Control tokens: those flagged as special, used in a literal of the format or template, or \
             named by a file of the model"
        }
        Protect::AllAdded => {
            "All added tokens: text that spells one gets different ids than the model was trained with"
        }
        _ => "",
    })
}

pub fn rules() -> impl TypedValueParser<Value = RuleMode> {
    words(RuleMode::ALL, |rules| match rules {
        RuleMode::Enforce => "Refuse conversations that break a rule or contain parts that the format cannot express",
        RuleMode::Reference => {
            "Behave like the maker's own code: allow any order and the maker's role names, and leave out \
             parts that the format cannot express"
        }
    })
}

pub fn forms() -> impl TypedValueParser<Value = Forms> {
    words(Forms::ALL, |forms| match forms {
        Forms::AsGiven => "As they are in the conversation, as transformers does",
        Forms::AsWanted => {
            "In the forms that the template writes: arguments as an object or as JSON text, contents as a text or \
             in parts, ids that it does not refuse"
        }
    })
}

pub fn reasoning() -> impl TypedValueParser<Value = Reasoning> {
    words(Reasoning::ALL, |reasoning| match reasoning {
        Reasoning::Off => "The reply has no reasoning",
        Reasoning::Optional => "The model decides",
        Reasoning::Required => "The reply begins with reasoning",
        Reasoning::Over => "Reasoning is complete: the grammar begins after the marker that closes it",
    })
}

pub fn unclosed_reasoning() -> impl TypedValueParser<Value = UnclosedReasoning> {
    words(UnclosedReasoning::ALL, |unclosed| match unclosed {
        UnclosedReasoning::Reasoning => "Leave it reasoning",
        UnclosedReasoning::Content => "Make it content; reasoning is held back until it is closed",
    })
}

pub fn calls_in_reasoning() -> impl TypedValueParser<Value = CallsInReasoning> {
    words(CallsInReasoning::ALL, |calls| match calls {
        CallsInReasoning::Draft => "Treat it as part of the reasoning",
        CallsInReasoning::Unclosed => "Treat it as a call if the turn ends after it and the reasoning was never closed",
        CallsInReasoning::Call => "Treat it as a call that ends the reasoning",
    })
}

pub fn unknown_names() -> impl TypedValueParser<Value = UnknownNames> {
    words(UnknownNames::ALL, |unknown| match unknown {
        UnknownNames::Pass => "Treat them as calls",
        UnknownNames::Text => "Treat them as text",
    })
}

pub fn text_after_calls() -> impl TypedValueParser<Value = TextAfterCalls> {
    words(TextAfterCalls::ALL, |after| match after {
        TextAfterCalls::Content => "Treat it as content",
        TextAfterCalls::Report => "Treat it as content and report it",
    })
}

/// Returns a parser that also knows an older word.
pub fn bos() -> impl TypedValueParser<Value = BosBy> {
    let help = |by| match by {
        BosBy::Auto => "The format or template, or the tokenizer if these write none: the token appears exactly once",
        BosBy::Template => "Only the format or template",
        BosBy::Tokenizer => "Only the tokenizer: the token that the format or template writes is left out",
        BosBy::Nobody => "Nobody: the engine adds the token itself",
    };
    let value = |by: BosBy| {
        let value = PossibleValue::new(by.word()).help(help(by));
        if by == BosBy::Template { value.alias("write") } else { value }
    };
    PossibleValuesParser::new(BosBy::ALL.map(value)).try_map(|word| word.parse().map_err(|()| "unknown word"))
}
