use rolecall::conversation::Json;

/// Where messages go so that the results of a reply follow it in the order of its calls, whoever ran them and whenever they
/// came: some formats have no ids of calls, and tell results by their order alone.
pub struct ResultOrder(Vec<usize>);

impl ResultOrder {
    /// Returns the order of messages. `calls` are the ids of the calls before them.
    pub fn of(messages: &[Json], calls: &[String]) -> ResultOrder {
        let mut calls: Vec<&str> = calls.iter().map(String::as_str).collect();
        let mut order = Vec::with_capacity(messages.len());
        // Between two replies: results with the places of their calls, and what else is said.
        let (mut results, mut others) = (Vec::new(), Vec::new());
        for (at, message) in messages.iter().enumerate() {
            match text(message, "role") {
                Some("assistant") => {
                    end_turn(&mut order, &mut results, &mut others);
                    order.push(at);
                    calls = calls_of(message);
                }
                Some("tool") => {
                    let call = text(message, "tool_call_id").and_then(|id| calls.iter().rposition(|call| *call == id));
                    match call {
                        Some(call) => results.push((call, at)),
                        None => others.push(at),
                    }
                }
                _ => others.push(at),
            }
        }
        end_turn(&mut order, &mut results, &mut others);
        ResultOrder(order)
    }

    /// Puts what belongs to the messages in their order.
    pub fn apply<T>(&self, items: Vec<T>) -> Vec<T> {
        let mut items: Vec<Option<T>> = items.into_iter().map(Some).collect();
        self.0.iter().filter_map(|from| items.get_mut(*from)?.take()).collect()
    }

    /// Returns the new index of a message.
    pub fn place(&self, message: usize) -> usize {
        self.0.iter().position(|from| *from == message).unwrap_or(message)
    }
}

fn end_turn(order: &mut Vec<usize>, results: &mut Vec<(usize, usize)>, others: &mut Vec<usize>) {
    results.sort_by_key(|(call, _)| *call);
    order.extend(results.drain(..).map(|(_, at)| at));
    order.append(others);
}

fn text<'a>(message: &'a Json, key: &str) -> Option<&'a str> {
    message.as_object()?.get(key)?.as_str()
}

fn calls_of(message: &Json) -> Vec<&str> {
    let calls = message.as_object().and_then(|message| message.get("tool_calls")?.as_array());
    calls.unwrap_or_default().iter().filter_map(|call| text(call, "id")).collect()
}
