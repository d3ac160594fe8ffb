//! In: a format's layouts and the tools of a request. Out: a grammar of what an engine may sample.
