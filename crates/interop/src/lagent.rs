//! Lagent's formats, which are kept as format files.

use std::sync::LazyLock;

use crate::about::About;
use crate::files;
use crate::framework::{Framework, expected, native};

pub(crate) static LAGENT: LazyLock<About> = LazyLock::new(|| expected(About::read(files::text("lagent/about.json"))));

pub(crate) const FRAMEWORK: Framework = Framework {
    name: "lagent",
    formats: || native("lagent"),
    dialect: |model| LAGENT.dialect("lagent", model),
    importer: None,
};
