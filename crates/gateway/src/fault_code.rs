/// Generates the enum, its names and its statuses from one table.
macro_rules! codes {
    ($($(#[$about:meta])* $code:ident = $name:literal, $status:literal;)+) => {
        /// What is wrong, by a stable name.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum FaultCode {
            $($(#[$about])* $code,)+
            /// An error of the library or of the store, by its own name.
            Other(&'static str),
        }

        impl FaultCode {
            /// Returns the name, as clients get it.
            pub fn name(self) -> &'static str {
                match self { $(FaultCode::$code => $name,)+ FaultCode::Other(name) => name }
            }

            /// Returns the status of the answer, unless the place of the error has its own.
            pub fn status(self) -> u16 {
                match self { $(FaultCode::$code => $status,)+ FaultCode::Other(_) => 400 }
            }
        }
    };
}

codes! {
    /// The request did not arrive as a whole.
    BrokenRequest = "broken_request", 400;
    /// Another request cancelled the turn.
    Cancelled = "cancelled", 409;
    /// Two fields contradict each other.
    Conflict = "conflict", 400;
    /// There is no container with this id.
    ContainerNotFound = "container_not_found", 404;
    /// As many containers run as may run.
    ContainersFull = "containers_full", 429;
    /// The prompt leaves no room for a reply.
    ContextLengthExceeded = "context_length_exceeded", 400;
    /// A result answers a call that was cut off.
    CutCall = "cut_call", 400;
    /// A kept conversation cannot be read.
    DamagedSession = "damaged_session", 500;
    /// The engine gave the reply up.
    EngineAborted = "engine_aborted", 502;
    /// The engine sent a damaged frame, or its answer ended without a reason.
    EngineBroken = "engine_broken", 502;
    /// The connection ended in the midst of a reply, or an engine that the gateway started has ended.
    EngineDied = "engine_died", 502;
    /// The engine cannot be reached.
    EngineDown = "engine_down", 502;
    /// The engine still loads its model.
    EngineLoading = "engine_loading", 503;
    /// The engine's own error.
    EngineRefused = "engine_refused", 502;
    /// No id came in time.
    EngineSlow = "engine_slow", 504;
    /// There is no file with this id.
    FileNotFound = "file_not_found", 404;
    /// A browser sent the request to a name that is not the gateway's own.
    ForeignHost = "foreign_host", 403;
    /// A browser sent the request for a page of another site.
    ForeignOrigin = "foreign_origin", 403;
    /// The reply does not follow the grammar that the engine was sent.
    GrammarIgnored = "grammar_ignored", 502;
    /// Code could not be run.
    InterpreterFailed = "interpreter_failed", 500;
    /// A bug in rolecall.
    Internal = "internal", 500;
    /// The key is missing or unknown.
    InvalidApiKey = "invalid_api_key", 401;
    /// An item that the request names is not known.
    ItemNotFound = "item_not_found", 400;
    /// The model's template leaves a part of the conversation out.
    LeftOut = "left_out", 400;
    /// The path has no such method.
    MethodNotAllowed = "method_not_allowed", 405;
    /// An MCP server cannot be used. The status is that of OpenAI's API.
    McpServerFailed = "mcp_server_failed", 424;
    /// A field is missing.
    MissingField = "missing_field", 400;
    /// No model has the name.
    ModelNotFound = "model_not_found", 404;
    /// No model is configured.
    NoModels = "no_models", 500;
    /// The path is not known.
    NotFound = "not_found", 404;
    /// The prompt has ids that are no text, and the engine takes only text.
    NotText = "not_text", 400;
    /// A text is not UTF-8.
    NotUtf8 = "not_utf_8", 400;
    /// The answer that the request goes on with is not known.
    PreviousResponseNotFound = "previous_response_not_found", 400;
    /// The answer is not known.
    ResponseNotFound = "response_not_found", 404;
    /// A schema is too large to make a grammar of it in a short time.
    SchemaTooLarge = "schema_too_large", 400;
    /// The gateway ended before the reply did.
    ShuttingDown = "shutting_down", 503;
    /// The request did not arrive in time.
    SlowRequest = "slow_request", 408;
    /// The tokenizer cannot do what the request needs.
    Tokenizer = "tokenizer", 500;
    /// The body, or what it refers to, is too large.
    TooLarge = "too_large", 413;
    /// There are more unknown keys than are tried.
    TooManyKeys = "too_many_keys", 400;
    /// There are more messages than are allowed.
    TooManyMessages = "too_many_messages", 400;
    /// There are more prompts than are allowed.
    TooManyPrompts = "too_many_prompts", 400;
    /// The gateway is at its limit of requests.
    TooManyRequests = "too_many_requests", 429;
    /// There are more tools than a grammar can have.
    TooManyTools = "too_many_tools", 400;
    /// The engine has no model or adapter with the name.
    UnknownEngineModel = "unknown_engine_model", 502;
    /// The operator has named no MCP server with this label.
    UnknownMcpServer = "unknown_mcp_server", 400;
    /// The body has another type than JSON.
    UnsupportedContentType = "unsupported_content_type", 415;
    /// The body is compressed.
    UnsupportedEncoding = "unsupported_encoding", 415;
    /// An item of a kind that the gateway does not have.
    UnsupportedItem = "unsupported_item", 400;
    /// A field that the gateway, the engine or the model does not use.
    UnsupportedParameter = "unsupported_parameter", 400;
    /// A part of a content of a kind that the gateway does not have.
    UnsupportedPart = "unsupported_part", 400;
    /// A schema that cannot be enforced.
    UnsupportedSchema = "unsupported_schema", 400;
    /// A tool of a kind that the gateway does not have.
    UnsupportedTool = "unsupported_tool", 400;
    /// The address of the request has no usable name.
    WrongHost = "wrong_host", 400;
    /// A field has a value of another type.
    WrongType = "wrong_type", 400;
    /// A field has a value that means nothing.
    WrongValue = "wrong_value", 400;
}
