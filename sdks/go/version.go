package leasehold

// Version of this package: that of the server it was made for.
const Version = "0.2.0"
