//! Comparisons as JSON.

use rolecall_conversation::json::Object;
use rolecall_conversation::{Json, object};

use super::{Cell, Comparison, Difference, LearnedComparison, Matrix, Opening, Outcome, Refusal, SameIds, Spot, Stand};
use crate::{Error, answer};

impl Comparison {
    /// Returns the comparison as
    /// `{"formats": [A, B], "same", "stops": [[..], [..]], "conversations": [{"name", "tells"?, "chat": {"outcome", ..}, "training"?: .., ..}], "ids"?: {"same", "of", "first"?}}`.
    pub fn to_json(&self) -> Json {
        let cases = self.cases.iter().map(|case| {
            let mut object = object! { "name" => case.telling.name.as_str() };
            if !case.telling.tells.is_empty() {
                object.insert("tells", Json::from(case.telling.tells.as_str()));
            }
            for (view, outcome) in &case.findings {
                object.insert(view.name(), outcome.to_json());
            }
            Json::Object(object)
        });
        let cases = Json::Array(cases.collect());
        let stops = Json::Array(self.stops.iter().map(|stops| names(stops)).collect());
        let mut object = object! {
            "formats" => names(&self.formats), "same" => self.is_same(), "stops" => stops, "conversations" => cases,
        };
        if let Some(SameIds { same, taken, first }) = &self.ids {
            let mut ids = object! { "same" => count(*same), "of" => count(*taken) };
            if let Some(first) = first {
                ids.insert("first", Json::from(first.as_str()));
            }
            object.insert("ids", Json::Object(ids));
        }
        Json::Object(object)
    }
}

impl Matrix {
    /// Returns the matrix as
    /// `{"formats": [..], "cells": [{"view", "formats": [0, 1], "same": 9, .., "apart": [{"name", "outcome", ..}]}]}`.
    pub fn to_json(&self) -> Json {
        let cells = self.cells.iter().map(|(view, pair, cell)| {
            let mut object =
                object! { "view" => view.name(), "formats" => Json::Array(pair.iter().map(|at| count(*at)).collect()) };
            for (key, value) in of_cell(cell).iter() {
                object.insert(key, value.clone());
            }
            Json::Object(object)
        });
        Json::Object(object! { "formats" => names(&self.formats), "cells" => Json::Array(cells.collect()) })
    }
}

impl Outcome {
    /// Returns the outcome as `{"outcome": "same"}`,
    /// `{"outcome": "text", "at": [{"offset", "before", "text", ..}, ..]}`, ..
    pub fn to_json(&self) -> Json {
        let mut object = object! { "outcome" => self.name() };
        match self {
            Outcome::Same => {}
            Outcome::Opening(opening) => insert_opening(&mut object, Some(opening)),
            Outcome::Text(difference) => insert_difference(&mut object, difference),
            Outcome::Loss(difference) => {
                insert_opening(&mut object, difference.opening.as_ref());
                object.insert("by", count(difference.by.index()));
                object.insert("text", Json::from(difference.text.as_str()));
                let spans = difference.spans.iter().map(|span| Json::Array(vec![count(span.start), count(span.end)]));
                object.insert("spans", Json::Array(spans.collect()));
            }
            Outcome::Untaught { by, text } => {
                object.insert("by", count(by.index()));
                object.insert("text", Json::from(text.as_str()));
            }
            Outcome::NeverStops { by, learned, stops } => {
                object.insert("by", count(by.index()));
                object.insert("learned", Json::from(learned.as_str()));
                object.insert("stops", names(stops));
            }
            Outcome::OneRefuses { side, error } => {
                object.insert("by", count(side.index()));
                object.insert("error", of_refusal(error));
            }
            Outcome::BothRefuse(errors) => {
                object.insert("errors", Json::Array(errors.iter().map(of_refusal).collect()))
            }
        }
        Json::Object(object)
    }
}

fn of_cell(cell: &Cell) -> Object {
    let apart = cell.apart.iter().map(|(name, outcome)| {
        let mut object = object! { "name" => name.as_str() };
        for (key, value) in outcome.to_json().as_object().into_iter().flat_map(Object::iter) {
            object.insert(key, value.clone());
        }
        Json::Object(object)
    });
    object! {
        "same" => cell.same as i64,
        "opening" => cell.opening as i64,
        "differ" => cell.differ as i64,
        "one-refuses" => cell.one_refuses as i64,
        "both-refuse" => cell.both_refuse as i64,
        "apart" => Json::Array(apart.collect()),
    }
}

fn insert_difference(object: &mut Object, difference: &Difference) {
    insert_opening(object, difference.opening.as_ref());
    object.insert("at", Json::Array(difference.spots.iter().map(of_spot).collect()));
    if let Some(LearnedComparison::Differs { number, texts }) = &difference.learned {
        let texts = texts.iter().map(|text| text.as_deref().map_or(Json::Null, Json::from));
        let learned = object! { "number" => count(*number), "texts" => Json::Array(texts.collect()) };
        object.insert("learned", Json::Object(learned));
    }
}

fn insert_opening(object: &mut Object, opening: Option<&Opening>) {
    if let Some(opening) = opening {
        object.insert("opening", names(&opening.texts));
    }
}

fn of_spot(spot: &Spot) -> Json {
    let mut object = object! {
        "offset" => count(spot.offset), "before" => spot.before.as_str(), "text" => spot.text.as_str(),
    };
    if let Some(origin) = &spot.origin {
        object.insert("origin", answer::of_origin(origin));
    }
    if let Some(slot) = spot.slot {
        object.insert("layout", Json::from(slot.key()));
    }
    let (stand, message) = match spot.stand {
        Stand::Start => ("start", None),
        Stand::Before(message) => ("before", Some(message)),
        Stand::Within(message) => ("within", Some(message)),
        Stand::Behind(message) => ("behind", Some(message)),
        Stand::Generate => ("generate", None),
    };
    object.insert("stands", Json::from(stand));
    if let Some(message) = message {
        object.insert("message", count(message));
    }
    Json::Object(object)
}

fn of_refusal(refusal: &Refusal) -> Json {
    match answer::of_error(None, &Error::Render(refusal.clone())) {
        Json::Object(mut answer) => answer.remove("error").unwrap_or(Json::Null),
        other => other,
    }
}

fn names(names: &[String]) -> Json {
    Json::Array(names.iter().map(|name| Json::from(name.as_str())).collect())
}

fn count(count: usize) -> Json {
    Json::from(count as i64)
}
