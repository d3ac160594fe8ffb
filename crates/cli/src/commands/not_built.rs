//! What stands for `serve`, `chat` and `interpreter` in a build without the feature `gateway`.

use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub fn run<T>(_: &T, _: &Output) -> Result<Exit, Failure> {
    Err(Failure::Serve {
        code: "not_built",
        message: "this build of rolecall has no gateway, no chat and no interpreter".into(),
        place: Some("command line".into()),
        help: vec!["install rolecall with `cargo install rolecall-cli --features gateway`".into()],
        exit: Exit::Usage,
    })
}
