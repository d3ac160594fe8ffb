//! What stands for `serve` in a build without the feature `gateway`.

use crate::args::Serve;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::output::Output;

pub fn run(_: &Serve, _: &Output) -> Result<Exit, Failure> {
    Err(Failure::Serve {
        code: "not_built",
        message: "this build of rolecall has no gateway".into(),
        place: Some("command line, serve".into()),
        help: vec!["install rolecall with `cargo install rolecall-cli --features gateway`".into()],
        exit: Exit::Usage,
    })
}
