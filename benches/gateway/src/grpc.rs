//! The part of SGLang's gRPC protocol that a gateway needs to generate. Field numbers are those of
//! `sglang_scheduler.proto` in the PyPI package `smg-grpc-proto`.

use bytes::{BufMut, Bytes, BytesMut};
use prost::Message;

/// The path before a method's name.
pub const SERVICE: &str = "/sglang.grpc.scheduler.SglangScheduler/";

/// What the stand-in reads of a request to generate.
#[derive(Clone, PartialEq, Message)]
pub struct Generate {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(message, optional, tag = "4")]
    pub sampling: Option<Sampling>,
    #[prost(bool, tag = "17")]
    pub is_streamed: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct Sampling {
    #[prost(uint32, optional, tag = "8")]
    pub max_new_tokens: Option<u32>,
}

/// The prompt of a request to generate.
#[derive(Clone, PartialEq, Message)]
pub struct Prompt {
    #[prost(message, optional, tag = "2")]
    pub tokenized: Option<Tokenized>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Tokenized {
    #[prost(uint32, repeated, tag = "2")]
    pub input_ids: Vec<u32>,
}

/// A part of the answer: new ids, or the end.
#[derive(Clone, PartialEq, Message)]
pub struct Generated {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(message, optional, tag = "2")]
    pub chunk: Option<Chunk>,
    #[prost(message, optional, tag = "3")]
    pub complete: Option<Complete>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Chunk {
    #[prost(uint32, repeated, tag = "1")]
    pub ids: Vec<u32>,
    #[prost(uint32, tag = "2")]
    pub prompt_tokens: u32,
    #[prost(uint32, tag = "3")]
    pub completion_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Complete {
    #[prost(uint32, repeated, tag = "1")]
    pub ids: Vec<u32>,
    #[prost(string, tag = "2")]
    pub finish_reason: String,
    #[prost(uint32, tag = "3")]
    pub prompt_tokens: u32,
    #[prost(uint32, tag = "4")]
    pub completion_tokens: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct Healthy {
    #[prost(bool, tag = "1")]
    pub is_healthy: bool,
}

#[derive(Clone, PartialEq, Message)]
pub struct ModelInfo {
    #[prost(string, tag = "1")]
    pub model_path: String,
    #[prost(string, tag = "2")]
    pub tokenizer_path: String,
    #[prost(bool, tag = "3")]
    pub is_generation: bool,
    #[prost(string, tag = "6")]
    pub served_model_name: String,
    #[prost(int32, tag = "7")]
    pub max_context_length: i32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ServerInfo {
    #[prost(string, tag = "8")]
    pub server_type: String,
}

#[derive(Clone, PartialEq, Message)]
pub struct Loads {
    #[prost(int32, tag = "3")]
    pub ranks: i32,
    #[prost(message, repeated, tag = "4")]
    pub loads: Vec<Load>,
}

#[derive(Clone, PartialEq, Message)]
pub struct Load {
    #[prost(int32, tag = "6")]
    pub most_tokens: i32,
    #[prost(int32, tag = "11")]
    pub most_requests: i32,
}

/// Returns a message with the length before it, as gRPC sends it.
pub fn frame(message: &impl Message) -> Bytes {
    let length = message.encoded_len();
    let mut frame = BytesMut::with_capacity(5 + length);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(length).unwrap_or(u32::MAX));
    // The buffer grows.
    let _ = message.encode(&mut frame);
    frame.freeze()
}

/// Returns the message of a frame.
pub fn message<T: Message + Default>(frame: &[u8]) -> Result<T, String> {
    match frame {
        [0, _, _, _, _, message @ ..] => T::decode(message).map_err(|error| error.to_string()),
        _ => Err("expected a frame that is not compressed".to_owned()),
    }
}
