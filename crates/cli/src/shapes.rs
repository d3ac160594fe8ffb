//! The shapes of the data in a run, each reported once.

use std::sync::atomic::{AtomicU32, Ordering};

use rolecall::dataset::Shape;

use crate::diagnostic::{Diagnostic, DiagnosticPlace, Severity};
use crate::output::Output;

/// The shapes that were read by any thread, and those that were already reported.
#[derive(Debug, Default)]
pub struct SeenShapes {
    seen: AtomicU32,
    told: AtomicU32,
}

impl SeenShapes {
    pub fn add(&self, shape: Shape) {
        let bit = bit(shape);
        // This runs for every line, so avoid the write.
        if self.seen.load(Ordering::Relaxed) & bit == 0 {
            self.seen.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Reports each shape once, except OpenAI's, which is the default.
    pub fn tell(&self, output: &Output) {
        let seen = self.seen.load(Ordering::Relaxed);
        let told = self.told.swap(seen, Ordering::Relaxed);
        for shape in Shape::ALL.into_iter().filter(|shape| *shape != Shape::OpenAi && seen & !told & bit(*shape) != 0) {
            output.show(&Diagnostic {
                severity: Severity::Note,
                code: "shape",
                message: format!("read as {shape}"),
                place: DiagnosticPlace::Nowhere,
                help: Vec::new(),
            });
        }
    }
}

fn bit(shape: Shape) -> u32 {
    Shape::ALL.iter().position(|known| *known == shape).map_or(0, |at| 1 << at)
}
