package suffrage

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"
)

// lines answers a campaign with the lines that a test sends.
func lines(events chan string, closed chan struct{}) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, r *http.Request, got request) {
		w.WriteHeader(http.StatusOK)
		for {
			w.(http.Flusher).Flush()
			select {
			case line, open := <-events:
				if !open {
					return
				}
				fmt.Fprintln(w, line)
			case <-r.Context().Done():
				close(closed)
				return
			}
		}
	}
}

func at(event string, deadline, now Moment) string {
	return fmt.Sprintf(`{"event":%q,"token":9,"deadline_ns":%d,"now_ns":%d}`, event, deadline, now)
}

func holds(t *testing.T) (*fakeNode, *Client, chan string, chan struct{}) {
	events, closed := make(chan string, 10), make(chan struct{})
	node := newFakeNode(t, lines(events, closed))
	return node, newTestClient(t, node.startLocal()), events, closed
}

func TestLeadsByConnection(t *testing.T) {
	node, client, events, closed := holds(t)
	events <- `{"event":"waiting","queue_position":1}`
	now := Now()
	deadline := now + Moment(time.Minute)
	events <- at("leading", deadline, now)
	l := mustLead(t, client.Election("x", Options{TTL: time.Second}))
	if got := node.expect("campaign"); got.body.Hold != "connection" || got.body.TTL != "1000ms" || got.body.Wait != "" {
		t.Fatalf("%+v", got)
	}
	if l.Token() != 9 || l.Deadline() != deadline || l.Check() != nil {
		t.Fatalf("%d, %d", l.Token(), l.Deadline())
	}
	events <- strings.Replace(at("renewed", deadline+5, now), "9", "12", 1)
	events <- `{"event":"an event of a later version"}`
	events <- at("hand_over_wanted", deadline+7, now)
	wait(t, "hand-over", l.HandOver())
	wait(t, "stop", l.Context().Done())
	if l.Deadline() != deadline+7 || l.Check() != nil || l.Token() != 12 {
		t.Fatal(l.Deadline(), l.Token())
	}
	resign(t, l)
	if l.Err() != ErrResigned {
		t.Fatal(l.Err())
	}
	wait(t, "the end of the connection", closed)
}

func TestLossOfTheConnection(t *testing.T) {
	for _, end := range []string{`{"event":"lost","reason":"expired"}`, "no json", ""} {
		_, client, events, _ := holds(t)
		events <- at("leading", Now()+Moment(time.Minute), Now())
		l := mustLead(t, client.Election("x", Options{}))
		if end == "" {
			close(events)
		} else {
			events <- end
		}
		wait(t, "the end", l.Done())
		if l.Err() != ErrLost || l.Deadline() > Now() {
			t.Fatalf("%q: %v", end, l.Err())
		}
	}
}

func TestSilentNodeEndsTheLeadershipAtItsDeadline(t *testing.T) {
	_, client, events, closed := holds(t)
	deadline := Now() + Moment(300*time.Millisecond)
	events <- at("leading", deadline, Now())
	l := mustLead(t, client.Election("x", Options{StopMargin: 100 * time.Millisecond}))
	wait(t, "stop", l.Context().Done())
	wait(t, "the end", l.Done())
	if l.Err() != ErrExpired || l.Deadline() != deadline || Now() < deadline {
		t.Fatal(l.Err())
	}
	wait(t, "the end of the connection", closed)
}

func TestClocksThatAreNotTheSame(t *testing.T) {
	_, client, events, closed := holds(t)
	later := Now() + Moment(time.Hour)
	events <- at("leading", later+Moment(time.Minute), later)
	ctx, cancel := context.WithCancel(context.Background())
	client.onError = func(error) { cancel() }
	if _, err := client.Election("x", Options{}).Lead(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("it leads by another clock: %v", err)
	}
	wait(t, "the end of the connection", closed)
}

func TestLeaseThatHasExpiredInTheBuffer(t *testing.T) {
	_, client, events, closed := holds(t)
	events <- at("leading", Now()-1, Now()-2)
	ctx, cancel := context.WithCancel(context.Background())
	client.onError = func(error) { cancel() }
	if _, err := client.Election("x", Options{}).Lead(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("it leads with an expired lease: %v", err)
	}
	wait(t, "the end of the connection", closed)
}

func TestCancelledWhileItWaits(t *testing.T) {
	node, client, events, closed := holds(t)
	events <- `{"event":"waiting","queue_position":1}`
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := client.Election("x", Options{}).Lead(ctx)
		failed <- err
	}()
	node.expect("campaign")
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	wait(t, "the end of the connection", closed)
}
