module github.com/suffrage-rs/suffrage/clients/go

go 1.19
