//! The values that flags take.

use clap::ValueEnum;
use rolecall::Stop;

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
