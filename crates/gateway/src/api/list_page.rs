use rolecall::conversation::{Json, object};

use crate::{Fault, FaultCode};

/// A part of a list, as a client asks for it.
pub struct ListPage {
    after: Option<String>,
    limit: usize,
    is_ascending: bool,
}

/// The most items of a page. Source: OpenAI's API reference.
const MOST: usize = 100;

impl ListPage {
    /// Reads what a query asks for.
    pub fn read(query: &[(String, String)]) -> Result<ListPage, Fault> {
        let mut page = ListPage { after: None, limit: 20, is_ascending: false };
        for (name, value) in query {
            match (name.as_str(), value.as_str()) {
                ("after", id) => page.after = Some(id.to_owned()),
                ("order", "asc") => page.is_ascending = true,
                ("order", "desc") => page.is_ascending = false,
                ("order", _) => {
                    return Err(Fault::at("order", FaultCode::WrongValue, "order: expected \"asc\" or \"desc\""));
                }
                ("limit", count) => {
                    let count = count.parse().ok().filter(|count| (1..=MOST).contains(count));
                    let message = format!("limit: expected a whole number from 1 to {MOST}");
                    page.limit = count.ok_or_else(|| Fault::at("limit", FaultCode::WrongValue, message))?;
                }
                (name, _) => return Err(Fault::unsupported(name)),
            }
        }
        Ok(page)
    }

    /// Returns this part of the items, which are the oldest first.
    pub fn of(&self, mut items: Vec<Json>) -> Result<Json, Fault> {
        if !self.is_ascending {
            items.reverse();
        }
        let id_of = |item: &Json| item.as_object().and_then(|item| item.get("id")).cloned().unwrap_or(Json::Null);
        let start = match &self.after {
            None => 0,
            Some(after) => {
                let at = items.iter().position(|item| id_of(item).as_str() == Some(after));
                let message = format!("after: there is no item `{after}`");
                1 + at.ok_or_else(|| Fault::at("after", FaultCode::WrongValue, message))?
            }
        };
        let has_more = items.len() - start > self.limit;
        let data: Vec<Json> = items.into_iter().skip(start).take(self.limit).collect();
        let end = |item: Option<&Json>| item.map_or(Json::Null, id_of);
        Ok(object! {
            "object" => "list", "first_id" => end(data.first()), "last_id" => end(data.last()),
            "has_more" => has_more, "data" => data,
        }
        .into())
    }
}
