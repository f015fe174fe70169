module claim

go 1.19
