/// An error of a column writer, which should not occur.
#[derive(Debug)]
pub struct Unwritten(pub String);
