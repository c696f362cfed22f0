//! RESP2 and RESP3: parsing requests, writing replies
