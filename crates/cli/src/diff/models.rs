//! Finds the formats that are available for each model.

use std::path::Path;
use std::sync::Arc;

use rolecall::conversation::{Json, json};
use rolecall::format::{BoundaryToken, Control, Format, Registry};
use rolecall::identify::{Clues, Unidentified, identify};
use rolecall::interop::{Dialect, dialects};

use crate::failure::Failure;
use crate::files;

/// A format that is available for a model.
#[derive(Clone, Debug)]
pub struct ListedModel {
    /// The format, with the BOS token of the model.
    pub format: Arc<Format>,
    /// Why the format fits the model.
    pub why: String,
    /// A warning about using the format.
    pub warning: Option<String>,
}

impl ListedModel {
    /// Removes the model's name from the warning.
    fn of_any(mut self, model: &str) -> ListedModel {
        self.warning = self.warning.map(|warning| warning.replace(&format!("`{model}`"), "this"));
        self
    }
}

/// Models with the same available formats.
#[derive(Debug)]
pub struct Group {
    pub models: Vec<String>,
    pub listed: Vec<ListedModel>,
}

/// Lists the formats of a model: its maker's own, and the frameworks' dialects.
pub fn list_formats(registry: &Registry, model: &Clues) -> Result<Vec<ListedModel>, Unidentified> {
    let fit = identify(model, registry);
    let mut listed: Vec<ListedModel> = Vec::new();
    if let Ok(fit) = &fit {
        let why = fit.evidence.first().map_or_else(String::new, |evidence| format!("the maker's own: {evidence}"));
        let warnings: Vec<String> = fit.warnings.iter().map(ToString::to_string).collect();
        let warning = (!warnings.is_empty()).then(|| warnings.join("; "));
        listed.push(ListedModel { format: Arc::new(fit.format.clone()), why, warning });
    }
    for Dialect { format, why, warning } in dialects(&model.name) {
        if listed.iter().any(|other| other.format.name == format) {
            continue;
        }
        if let Some(format) = registry.get(&format) {
            let format = fit.as_ref().map_or_else(|_| format.clone(), |fit| opened_as(format, fit.format));
            listed.push(ListedModel { format, why, warning });
        }
    }
    match (listed.is_empty(), fit) {
        (true, Err(unidentified)) => Err(unidentified),
        _ => Ok(listed),
    }
}

/// Groups models with the same formats, in their original order. Also returns the models without a
/// format.
pub fn group_models(registry: &Registry, models: &[String]) -> (Vec<Group>, Vec<String>) {
    let (mut groups, mut without): (Vec<Group>, Vec<String>) = (Vec::new(), Vec::new());
    for model in models {
        let named = Clues { name: model.clone(), folder: None };
        let Ok(listed) = list_formats(registry, &named) else {
            without.push(model.clone());
            continue;
        };
        let listed: Vec<ListedModel> = listed.into_iter().map(|listed| listed.of_any(model)).collect();
        let same = |group: &&mut Group| {
            let each = || group.listed.iter().zip(&listed);
            group.listed.len() == listed.len() && each().all(|(a, b)| a.format == b.format && a.warning == b.warning)
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.models.push(model.clone()),
            None => groups.push(Group { models: vec![model.clone()], listed }),
        }
    }
    (groups, without)
}

/// Reads model names from a file: `{"models": ["NAME", {"model": "NAME", ..}, ..]}`, or only the
/// list.
pub fn read_models(path: &Path) -> Result<Vec<String>, Failure> {
    let source = files::read_text(path)?;
    let unreadable = |why: String| Failure::Unreadable { path: source.name.clone(), why };
    let value = json::parse(&source.text).map_err(|error| unreadable(format!("not JSON: {}", error.message)))?;
    let list = match &value {
        Json::Object(object) => object.get("models").and_then(Json::as_array),
        other => other.as_array(),
    };
    let list = list.ok_or_else(|| unreadable("expected `{\"models\": [..]}` or a list of model names".into()))?;
    let name = |item: &Json| match item {
        Json::Object(object) => object.get("model").and_then(Json::as_str).map(str::to_owned),
        other => other.as_str().map(str::to_owned),
    };
    let names: Option<Vec<String>> = list.iter().map(name).collect();
    names.ok_or_else(|| unreadable("expected a model name or an object with `model` in the list of models".into()))
}

/// Returns the format with the BOS token of the model's maker, if it uses the tokenizer's own.
fn opened_as(format: &Arc<Format>, maker: &Format) -> Arc<Format> {
    let texts = |format: &Format, wanted: fn(&Control) -> bool| -> Vec<String> {
        format.controls.iter().filter(|control| wanted(control)).map(|control| control.text.clone()).collect()
    };
    let own = texts(format, |control| control.own == Some(BoundaryToken::Bos));
    let makers = texts(maker, |control| control.bos);
    if own.len() != 1 || own == makers {
        return Arc::clone(format);
    }
    let bos: Vec<&str> = makers.iter().map(String::as_str).collect();
    let eos = texts(format, |control| control.own == Some(BoundaryToken::Eos)).into_iter().next();
    Arc::new(format.with_own_tokens(&bos, eos.as_deref()))
}
