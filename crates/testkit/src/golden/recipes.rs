//! Tokenizers that vectors derive from other ones: the files of a folder with tokens added or
//! renamed.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use rolecall::conversation::json;
use rolecall::conversation::json::{Layout, Object};
use rolecall::conversation::{Json, object};
use rolecall::tokenizer;
use rolecall::tokenizer::Tokenizer;

use super::text;

/// The recipes by name, and the tokenizers made from them.
#[derive(Default)]
pub(super) struct Recipes {
    recipes: HashMap<String, Object>,
    made: HashMap<String, Result<Arc<dyn Tokenizer>, String>>,
}

impl Recipes {
    /// Stores the recipes of a meta line.
    pub fn take(&mut self, recipes: &Object) {
        self.made.clear();
        self.recipes =
            recipes.iter().filter_map(|(name, recipe)| Some((name.to_owned(), recipe.as_object()?.clone()))).collect();
    }

    /// Returns a tokenizer by name: made from a recipe, or loaded from the folder of that name.
    pub fn tokenizer(&mut self, name: &str, folder: Option<&Path>) -> Result<Arc<dyn Tokenizer>, String> {
        let folder = folder.ok_or("no folder of tokenizers given (--tokenizers)")?;
        let recipe = self.recipes.get(name);
        let make = || match recipe {
            Some(recipe) => make(recipe, folder),
            None => tokenizer::load(&folder.join(name)).map(Arc::from).map_err(|error| error.to_string()),
        };
        self.made.entry(name.to_owned()).or_insert_with(make).clone()
    }
}

/// Makes a tokenizer from a `tokenizer.json` with the tokens in `added` appended and those in
/// `renamed` renamed.
fn make(recipe: &Object, folder: &Path) -> Result<Arc<dyn Tokenizer>, String> {
    let file = folder.join(text(recipe, "base")).join("tokenizer.json");
    let source = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
    let Ok(Json::Object(mut tokenizer)) = json::parse(&source) else {
        return Err(format!("{}: not a JSON object", file.display()));
    };
    let vocabulary = tokenizer.get("model").and_then(|model| model.as_object()?.get("vocab")?.as_object()).cloned();
    let Some(Json::Array(tokens)) = tokenizer.get_mut("added_tokens") else {
        return Err(format!("{}: no `added_tokens`", file.display()));
    };
    for entry in recipe.get("renamed").and_then(Json::as_array).unwrap_or_default() {
        let Some([id, name]) = entry.as_array() else { return Err("expected [id, text] in `renamed`".into()) };
        let token = tokens.iter_mut().filter_map(|token| match token {
            Json::Object(token) => Some(token),
            _ => None,
        });
        let renamed =
            token.filter(|token| token.get("id") == Some(id)).map(|token| token.insert("content", name.clone()));
        if renamed.count() != 1 {
            return Err(format!("{}: expected one token to rename", file.display()));
        }
    }
    let mut known_before = 0;
    for entry in recipe.get("added").and_then(Json::as_array).unwrap_or_default() {
        let Some([id, content, special]) = entry.as_array() else {
            return Err("expected [id, text, special] in `added`".into());
        };
        // tokenizers: a token that the vocabulary has keeps its id there, and the ids of those after
        // it move up.
        let id = match (vocabulary.as_ref().and_then(|vocabulary| vocabulary.get(content.as_str()?)), id) {
            (Some(known), _) => {
                known_before += 1;
                known.clone()
            }
            (None, Json::Number(id)) => Json::from(id.as_i64().unwrap_or_default() - known_before),
            (None, _) => return Err("expected a number as the id in `added`".into()),
        };
        tokens.push(Json::Object(object! {
            "id" => id, "content" => content.clone(), "single_word" => false, "lstrip" => false,
            "rstrip" => false, "normalized" => false, "special" => special.clone(),
        }));
    }
    let bytes = json::write(&Json::Object(tokenizer), &Layout::default());
    let (_, made) = tokenizer::load_bytes(bytes.as_bytes(), None).map_err(|error| error.to_string())?;
    Ok(Arc::from(made))
}
