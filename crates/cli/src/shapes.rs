//! Which shapes the data of a run has, told once.

use std::sync::atomic::{AtomicU32, Ordering};

use rolecall::dataset::Shape;

use crate::diagnostic::{Diagnostic, Place, Severity};
use crate::output::Output;

/// Shapes that threads have read, and those that were told.
#[derive(Debug, Default)]
pub struct SeenShapes {
    seen: AtomicU32,
    told: AtomicU32,
}

impl SeenShapes {
    pub fn add(&self, shape: Shape) {
        let bit = bit(shape);
        // Every line comes here.
        if self.seen.load(Ordering::Relaxed) & bit == 0 {
            self.seen.fetch_or(bit, Ordering::Relaxed);
        }
    }

    /// Says in which shapes data was read, each once. OpenAI's is the usual one.
    pub fn tell(&self, output: &Output) {
        let seen = self.seen.load(Ordering::Relaxed);
        let told = self.told.swap(seen, Ordering::Relaxed);
        for shape in Shape::ALL.into_iter().filter(|shape| *shape != Shape::OpenAi && seen & !told & bit(*shape) != 0) {
            output.show(&Diagnostic {
                severity: Severity::Note,
                code: "shape",
                message: format!("read as {shape}"),
                place: Place::Nowhere,
                help: Vec::new(),
            });
        }
    }
}

fn bit(shape: Shape) -> u32 {
    Shape::ALL.iter().position(|known| *known == shape).map_or(0, |at| 1 << at)
}
