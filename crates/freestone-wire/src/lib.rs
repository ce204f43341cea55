//! Freestone wire: the frames of the client protocol, and the client.
