//! The RESP front end: event loops, connections, one-sided reads, configuration
