//! The body of Anthropic's messages.

#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|body: &[u8]| rolecall_gateway_fuzz::check("/v1/messages", body));
