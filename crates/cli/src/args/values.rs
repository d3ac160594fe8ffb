//! The values that flags take.

use clap::ValueEnum;
use rolecall::Stop;
use rolecall::dataset::Shape;
use rolecall::encode::Protect;
use rolecall::model::BosBy;
use rolecall::render::Bos;
use rolecall::render::RuleMode;
use rolecall::template::CallForm;

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReasoningArg {
    /// The reply has no reasoning
    Off,
    /// The model decides
    Optional,
    /// The reply begins with reasoning
    Required,
    /// Reasoning is complete: the grammar begins after the marker that closes it
    Over,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum LanguageArg {
    /// xgrammar's structural tag, in JSON (vLLM, SGLang, TensorRT-LLM)
    StructuralTag,
    /// llguidance's Lark
    Lark,
    /// llama.cpp's GBNF
    Gbnf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ApiArg {
    /// OpenAI's chat completions
    Openai,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum FinishArg {
    /// The model closed its turn, or stopped where a turn may end
    Stop,
    /// The model reached its token limit
    Length,
    /// The reply was aborted
    Abort,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DraftArg {
    /// Treat it as part of the reasoning
    Draft,
    /// Treat it as a call if the turn ends after it and the reasoning was never closed
    Unclosed,
    /// Treat it as a call that ends the reasoning
    Call,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum UnknownArg {
    /// Treat them as calls
    Pass,
    /// Treat them as text
    Text,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum AfterArg {
    /// Treat it as content
    Content,
    /// Treat it as content and report it
    Report,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ShapeArg {
    /// OpenAI's `messages`, as in its API and its files for fine-tuning
    Openai,
    /// Harmony's own JSON: messages with channels and recipients
    Harmony,
    /// `conversations` of `from` and `value`
    Sharegpt,
    /// `instruction`, `input` and `output`
    Alpaca,
    /// `prompt` and `completion`
    Completion,
    /// `chosen` and `rejected`: gives a result for each, the better one first
    Preference,
    /// LMFlow's `instances`
    Instances,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BosArg {
    /// The format or template, or the tokenizer if these write none: the token appears exactly once
    Auto,
    /// Only the format or template
    #[value(alias = "write")]
    Template,
    /// Only the tokenizer: the token that the format or template writes is left out
    Tokenizer,
    /// Nobody: the engine adds the token itself
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ProtectArg {
    /// Control tokens: those flagged as special, used in a literal of the format or template, or
    /// named by a file of the model
    Control,
    /// All added tokens: text that spells one gets different ids than the model was trained with
    AllAdded,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum RulesArg {
    /// Refuse conversations that break a rule or contain parts that the format cannot express
    Enforce,
    /// Behave like the maker's own code: allow any order and the maker's role names, and leave out
    /// parts that the format cannot express
    Reference,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum CallsArg {
    /// As they appear in the conversation
    AsGiven,
    /// In the form that the template writes correctly: arguments as an object or as JSON text, ids
    /// that it does not refuse
    AsWanted,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ViewArg {
    /// The prompts
    Chat,
    /// The training texts, and which parts of them carry loss
    Training,
    /// Whether A's training text matches what B serves
    Serving,
    /// Whether B's training text matches what A serves
    ServingBack,
}

impl FinishArg {
    pub fn stop(self) -> Stop {
        match self {
            FinishArg::Stop => Stop::End,
            FinishArg::Length => Stop::Length,
            FinishArg::Abort => Stop::Abort,
        }
    }
}

impl ShapeArg {
    pub fn shape(self) -> Shape {
        match self {
            ShapeArg::Openai => Shape::OpenAi,
            ShapeArg::Harmony => Shape::Harmony,
            ShapeArg::Sharegpt => Shape::ShareGpt,
            ShapeArg::Alpaca => Shape::Alpaca,
            ShapeArg::Completion => Shape::Completion,
            ShapeArg::Preference => Shape::Preference,
            ShapeArg::Instances => Shape::Instances,
        }
    }
}

impl BosArg {
    pub fn bos(self) -> Bos {
        self.by().bos()
    }

    pub fn by(self) -> BosBy {
        match self {
            BosArg::Auto => BosBy::Auto,
            BosArg::Template => BosBy::Template,
            BosArg::Tokenizer => BosBy::Tokenizer,
            BosArg::None => BosBy::Nobody,
        }
    }
}

impl ProtectArg {
    pub fn mode(self) -> Protect {
        match self {
            ProtectArg::Control => Protect::Control,
            ProtectArg::AllAdded => Protect::AllAdded,
        }
    }
}

impl RulesArg {
    pub fn mode(self) -> RuleMode {
        match self {
            RulesArg::Enforce => RuleMode::Enforce,
            RulesArg::Reference => RuleMode::Reference,
        }
    }
}

impl CallsArg {
    pub fn form(self) -> CallForm {
        match self {
            CallsArg::AsGiven => CallForm::AsGiven,
            CallsArg::AsWanted => CallForm::AsWanted,
        }
    }
}
