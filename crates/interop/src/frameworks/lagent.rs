//! lagent's formats, which are format files in TOML.

use std::sync::LazyLock;

use crate::about::About;
use crate::files;
use crate::framework::{Framework, expected, native};

pub(crate) static LAGENT: LazyLock<About> = LazyLock::new(|| expected(About::read(files::text("lagent/about.json"))));

/// lagent's row in the table of frameworks.
pub(crate) const FRAMEWORK: Framework = Framework {
    name: "lagent",
    formats: || native("lagent"),
    dialect: |model| LAGENT.dialect("lagent", model),
    importer: None,
};
