package suffrage_test

import (
	"context"
	"log"
	"time"

	suffrage "github.com/suffrage-rs/suffrage/clients/go"
)

// A job that runs only on the leader.
func ExampleElection_Run() {
	ctx := context.Background()
	bill := func(context.Context, uint64) {}

	client, err := suffrage.New(suffrage.Config{})
	if err != nil {
		log.Fatal(err)
	}
	election := client.Election("billing", suffrage.Options{TTL: 10 * time.Second})
	err = election.Run(ctx, func(ctx context.Context, leadership *suffrage.Leadership) error {
		for ctx.Err() == nil { // cancelled before the lease ends
			bill(ctx, leadership.Token())
		}
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
}

// Leading in single steps.
func ExampleElection_Lead() {
	ctx := context.Background()
	client, err := suffrage.New(suffrage.Config{})
	if err != nil {
		log.Fatal(err)
	}
	leadership, err := client.Election("billing", suffrage.Options{}).Lead(ctx) // returns when this program leads
	if err != nil {
		log.Fatal(err)
	}
	defer leadership.Resign(context.Background())
	if err := leadership.Check(); err != nil {
		log.Print(err) // suffrage.ErrExpired, ErrLost or ErrResigned
	}
}
