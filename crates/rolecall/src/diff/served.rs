use rolecall_render::Prompt;

use super::opening::Pair;
use super::{Lesson, Outcome, Side, texts};

/// Checks that the served prompt is the start of the training text, so that the model continues as
/// it was trained and stops where the engine expects it. Side A trains, side B serves.
pub(super) fn compare(lesson: &Lesson, served: &Prompt, stops: &[String]) -> Outcome {
    let trained = &lesson.prompt;
    let pair = Pair::new(trained, served, &[]);
    let same = texts::common(pair);
    let [from_trained, from_served] = pair.from;
    if from_served + same < served.text().len() {
        let at = [from_trained + same, from_served + same];
        return Outcome::Text(Box::new(texts::difference(pair, at)));
    }
    let given = from_trained + same;
    if let Some(span) = lesson.loss.last().filter(|span| span.end > given) {
        if given < span.start {
            return Outcome::Untaught { by: Side::A, text: trained.text()[given..span.start].to_owned() };
        }
        let answer = trained.segments_in(span.clone()).filter(|segment| segment.origin.message().is_some()).last();
        let behind = answer.map_or(span.start, |segment| segment.start + segment.text.len());
        let learned = &trained.text()[behind..span.end];
        if !stops.is_empty() && !stops.iter().any(|stop| learned.contains(stop.as_str())) {
            return Outcome::NeverStops { by: Side::A, learned: learned.to_owned(), stops: stops.to_vec() };
        }
    }
    pair.opening().map_or(Outcome::Same, Outcome::Opening)
}
