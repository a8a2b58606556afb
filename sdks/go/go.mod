module leasehold.example/go

go 1.19
