package suffrage

import (
	"context"
	"errors"
	"testing"
	"time"
)

// atMoment returns a leadership with the deadline 1000 and the margin 100, and its clock.
func atMoment(t *testing.T) (*Leadership, *Moment) {
	clock := new(Moment)
	client := newTestClient(t, "http://127.0.0.1:1")
	client.acquire("x")
	l := newLeadership(context.Background(), client.Election("x", Options{}), func() Moment { return *clock }, 7, 1000, 100)
	return l, clock
}

func TestExpiredLeadershipNeverRevives(t *testing.T) {
	l, clock := atMoment(t)
	*clock = 999
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	*clock = 1000
	l.extend(7, 5000)
	l.replace(7, 5000)
	if err := l.Check(); err != ErrExpired {
		t.Fatalf("got %v after the deadline", err)
	}
	*clock = 900
	if err := l.Check(); err != ErrExpired {
		t.Fatal("it revives")
	}
	if l.Deadline() != 1000 || l.Remaining() != 0 || l.Context().Err() == nil {
		t.Fatal("it has not ended at its deadline")
	}
	wait(t, "done", l.Done())
}

func TestStopsAtTheMarginAndIsNotExtendedThen(t *testing.T) {
	l, clock := atMoment(t)
	l.extend(8, 2000)
	l.extend(7, 1500)
	if l.Token() != 8 {
		t.Fatalf("token %d after a renewal with token 8", l.Token())
	}
	*clock = 1899
	if left, stopping := l.tick(); left != 1 || stopping || l.Context().Err() != nil {
		t.Fatalf("left %d, stopping %v before the margin", left, stopping)
	}
	*clock = 1900
	if left, stopping := l.tick(); left != 100 || !stopping || l.Context().Err() == nil {
		t.Fatalf("left %d, stopping %v at the margin", left, stopping)
	}
	l.extend(7, 9000)
	l.replace(7, 9000)
	if err := l.Check(); err != nil || l.Deadline() != 2000 {
		t.Fatalf("the work has time to stop until 2000: %v, %d", err, l.Deadline())
	}
	l.replace(7, 1950)
	if l.Deadline() != 1950 {
		t.Fatal("an earlier deadline counts")
	}
}

func TestResignEndsFirst(t *testing.T) {
	l, clock := atMoment(t)
	*clock = 500
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Nobody tells the node in this test.
	if err := l.Resign(ctx); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	l.extend(7, 5000)
	if err := l.Check(); err != ErrResigned || l.Deadline() != 500 {
		t.Fatalf("%v, %d", err, l.Deadline())
	}
	if !l.client.acquire("x") {
		t.Fatal("the election is still in use")
	}
}

func TestHandOverStopsTheWorkAndLeavesTheLease(t *testing.T) {
	l, _ := atMoment(t)
	l.wantHandOver()
	l.wantHandOver()
	wait(t, "hand-over", l.HandOver())
	wait(t, "stop", l.Context().Done())
	l.extend(7, 5000)
	if err := l.Check(); err != nil || l.Deadline() != 1000 {
		t.Fatalf("%v, %d", err, l.Deadline())
	}
	l.lose()
	if err := l.Check(); err != ErrLost {
		t.Fatal(err)
	}
}

func TestClockOfSuspend(t *testing.T) {
	// The clock advances although no timer has fired: Check alone must notice.
	l, clock := atMoment(t)
	*clock = Moment(time.Hour)
	if err := l.Check(); err != ErrExpired {
		t.Fatal(err)
	}
}

func TestFence(t *testing.T) {
	fence := NewFence(5)
	for _, token := range []uint64{5, 7, 7} {
		if err := fence.Check(token); err != nil {
			t.Fatal(err)
		}
	}
	var stale *StaleTokenError
	written := false
	err := fence.Update(6, func() error { written = true; return nil })
	if !errors.As(err, &stale) || stale.Token != 6 || stale.Greatest != 7 || written {
		t.Fatalf("%v, written %v", err, written)
	}
	if fence.Greatest() != 7 {
		t.Fatal(fence.Greatest())
	}
}
