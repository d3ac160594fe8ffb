/// An error of a column writer, which should not occur.
#[derive(Debug)]
pub struct Unwritten(pub String);

impl From<Unwritten> for std::io::Error {
    fn from(Unwritten(why): Unwritten) -> std::io::Error {
        std::io::Error::other(why)
    }
}
