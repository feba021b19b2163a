package suffrage

import (
	"context"
	"encoding/pem"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestLeadsRenewsAndResigns(t *testing.T) {
	node := newFakeNode(t, granting(600*time.Millisecond)).start()
	client := newTestClient(t, node.server.URL)
	l := mustLead(t, client.Election("a/b", Options{TTL: time.Second, Rank: 3}))
	campaign := node.expect("campaign")
	if campaign.body.TTL != "1000ms" || campaign.body.Rank != 3 || campaign.body.Session != "" {
		t.Fatalf("%+v", campaign)
	}
	first := l.Deadline()
	for i := 0; i < 3; i++ {
		if renewal := node.expect("renew"); renewal.body.Session != "0123" {
			t.Fatalf("%+v", renewal)
		}
	}
	if err := l.Check(); err != nil || l.Token() != 7 || l.Deadline() <= first {
		t.Fatalf("%v, token %d", err, l.Token())
	}
	resign(t, l)
	if got := node.expect("resign"); got.body.Session != "0123" {
		t.Fatalf("%+v", got)
	}
	if l.Err() != ErrResigned || l.Context().Err() == nil {
		t.Fatal(l.Err())
	}
}

func TestValidityCountsFromBeforeTheRequest(t *testing.T) {
	var campaigns atomic.Int32
	const validFor = 300 * time.Millisecond
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "campaign" && campaigns.Add(1) == 1 {
			// The reply comes after its lease has ended.
			time.Sleep(validFor + 50*time.Millisecond)
		}
		granting(validFor)(w, r, got)
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{}))
	node.expect("campaign")
	if again := node.expect("campaign"); again.body.Session != "0123" {
		t.Fatalf("the client leads with a lease that was over: %+v", again)
	}
	if l.Deadline() > Now()+Moment(validFor) {
		t.Fatal("the deadline is later than the lease")
	}
}

func TestDelayOfTheReplyShortensTheLease(t *testing.T) {
	const validFor, delay = 10 * time.Second, 100 * time.Millisecond
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "campaign" {
			time.Sleep(delay)
		}
		granting(validFor)(w, r, got)
	}).start()
	election := newTestClient(t, node.server.URL).Election("x", Options{})
	l := mustLead(t, election)
	if remaining := l.Remaining(); remaining > validFor-delay {
		t.Fatalf("%v remain", remaining)
	}
}

func TestNodeThatDoesNotAnswerRenewals(t *testing.T) {
	release := make(chan struct{})
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "renew" {
			<-release
		}
		granting(400*time.Millisecond)(w, r, got)
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{StopMargin: 100 * time.Millisecond}))
	deadline := l.Deadline()
	wait(t, "stop", l.Context().Done())
	if l.Deadline() != deadline {
		t.Fatal("the deadline has moved without a reply")
	}
	wait(t, "the end", l.Done())
	if l.Err() != ErrExpired || Now() < deadline {
		t.Fatal(l.Err())
	}
	// The replies come now.
	close(release)
	node.expect("resign")
	if l.Check() != ErrExpired {
		t.Fatal("a late reply has revived the leadership")
	}
}

func TestConflictsOfRenewals(t *testing.T) {
	for reason, want := range map[string]error{"expired": ErrLost, "revoked": nil} {
		var renewals atomic.Int32
		node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
			if got.action == "renew" {
				renewals.Add(1)
				refuses(w, http.StatusConflict, reason)
				return
			}
			granting(3*time.Second)(w, r, got)
		}).start()
		l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{}))
		wait(t, "stop", l.Context().Done())
		if err := l.Check(); err != want {
			t.Fatalf("%s: %v", reason, err)
		}
		select {
		case <-l.HandOver():
			if reason != "revoked" {
				t.Fatal("hand-over is not wanted")
			}
		default:
			if reason == "revoked" {
				t.Fatal("hand-over is wanted")
			}
		}
		resign(t, l)
		if want == nil {
			node.expect("resign")
		}
		if count := renewals.Load(); count != 1 {
			t.Fatalf("%s: %d renewals", reason, count)
		}
	}
}

func TestSupersededRenewalIsNoAnswer(t *testing.T) {
	var renewals atomic.Int32
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "renew" && renewals.Add(1) == 1 {
			refuses(w, http.StatusConflict, "superseded")
			return
		}
		granting(600*time.Millisecond)(w, r, got)
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{}))
	for i := 0; i < 3; i++ {
		node.expect("renew")
	}
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestOneLeadershipAtATime(t *testing.T) {
	node := newFakeNode(t, granting(5*time.Second)).start()
	client := newTestClient(t, node.server.URL)
	l := mustLead(t, client.Election("x", Options{}))
	if _, err := client.Election("x", Options{}).Lead(context.Background()); err != ErrInUse {
		t.Fatal(err)
	}
	mustLead(t, client.Election("y", Options{}))
	resign(t, l)
	mustLead(t, client.Election("x", Options{}))
}

func TestCancelledCampaignResignsItsSession(t *testing.T) {
	// The campaign is cancelled between two requests, and while the node does not answer.
	for _, silent := range []bool{false, true} {
		cancelledCampaignResigns(t, silent)
	}
}

func cancelledCampaignResigns(t *testing.T, silent bool) {
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "campaign" {
			if silent && got.body.Session != "" {
				<-r.Context().Done()
				return
			}
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"session":"77","queue_position":1,"retry_before_ms":1000}`))
			return
		}
		granting(time.Second)(w, r, got)
	}).start()
	client := newTestClient(t, node.server.URL)
	ctx, cancel := context.WithCancel(context.Background())
	failed := make(chan error)
	go func() {
		_, err := client.Election("x", Options{}).Lead(ctx)
		failed <- err
	}()
	node.expect("campaign")
	if again := node.expect("campaign"); again.body.Session != "77" {
		t.Fatalf("%+v", again)
	}
	cancel()
	if err := <-failed; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := node.expect("resign"); got.body.Session != "77" {
		t.Fatalf("%+v", got)
	}
	if !client.acquire("x") {
		t.Fatal("the election is still in use")
	}
}

func TestCancelledParentStopsTheWork(t *testing.T) {
	node := newFakeNode(t, granting(2*time.Second)).start()
	ctx, cancel := context.WithCancel(context.Background())
	l, err := newTestClient(t, node.server.URL).Election("x", Options{}).Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	wait(t, "stop", l.Context().Done())
	if err := l.Check(); err != nil {
		t.Fatalf("the work has time to stop: %v", err)
	}
	wait(t, "the end", l.Done())
	if l.Err() != ErrExpired {
		t.Fatal(l.Err())
	}
	node.expect("resign")
}

func TestEndpointsAreTriedInOrder(t *testing.T) {
	busy := newFakeNode(t, func(w http.ResponseWriter, _ *http.Request, _ request) {
		refuses(w, http.StatusServiceUnavailable, "")
	}).start()
	node := newFakeNode(t, granting(5*time.Second)).start()
	var mu sync.Mutex
	var reported []error
	config := Config{Endpoints: []string{"http://127.0.0.1:1", busy.server.URL, node.server.URL}}
	config.OnError = func(err error) {
		mu.Lock()
		defer mu.Unlock()
		reported = append(reported, err)
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	mustLead(t, client.Election("x", Options{}))
	mu.Lock()
	defer mu.Unlock()
	var refused *NodeError
	if len(reported) != 2 || !errors.As(reported[1], &refused) || refused.Status != 503 {
		t.Fatalf("%v", reported)
	}
}

func TestErrorsForGood(t *testing.T) {
	for _, status := range []int{400, 401, 404, 422} {
		node := newFakeNode(t, func(w http.ResponseWriter, _ *http.Request, _ request) { refuses(w, status, "") }).start()
		_, err := newTestClient(t, node.server.URL).Election("x", Options{}).Lead(context.Background())
		var refused *NodeError
		if !errors.As(err, &refused) || refused.Status != status || refused.Unauthorized() != (status == 401) {
			t.Fatalf("%d: %v", status, err)
		}
	}
	client := newTestClient(t, "http://127.0.0.1:1")
	var config *ConfigError
	if _, err := client.Election("x", Options{TTL: time.Second, StopMargin: time.Second}).Lead(context.Background()); !errors.As(err, &config) {
		t.Fatal(err)
	}
}

func TestTokenIsReadAgainAndNotExposed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	write := func(token string) {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("old")
	var right atomic.Value
	right.Store("old")
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.token != right.Load() {
			refuses(w, http.StatusUnauthorized, "")
			return
		}
		granting(5*time.Second)(w, r, got)
	}).start()
	client, err := New(Config{Endpoints: []string{node.server.URL}, TokenFile: file})
	if err != nil {
		t.Fatal(err)
	}
	resign(t, mustLead(t, client.Election("x", Options{})))
	right.Store("new")
	write("new")
	resign(t, mustLead(t, client.Election("x", Options{})))
	for _, endpoint := range []string{"http://10.0.0.1:7480", "http://localhost.example:7480"} {
		if _, err := New(Config{Endpoints: []string{endpoint}, TokenFile: file}); err == nil {
			t.Fatalf("%s would get the token", endpoint)
		}
		if _, err := New(Config{Endpoints: []string{endpoint}, TokenFile: file, Plain: true}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTLSWithItsAuthority(t *testing.T) {
	node := newFakeNode(t, granting(5*time.Second))
	node.server.StartTLS()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: node.server.Certificate().Raw})
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	trusting, err := New(Config{Endpoints: []string{node.server.URL}, CAFile: file})
	if err != nil {
		t.Fatal(err)
	}
	mustLead(t, trusting.Election("x", Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	refused := make(chan error, 100)
	other, err := New(Config{Endpoints: []string{node.server.URL}, OnError: func(err error) { refused <- err; cancel() }})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Election("x", Options{}).Lead(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("an unknown authority is trusted: %v", err)
	}
}

func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	var renewals atomic.Int32
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "renew" && renewals.Add(1) == 1 {
			refuses(w, http.StatusConflict, "expired")
			return
		}
		granting(600*time.Millisecond)(w, r, got)
	}).start()
	election := newTestClient(t, node.server.URL).Election("x", Options{})
	calls := 0
	enough := errors.New("enough")
	err := election.Run(context.Background(), func(ctx context.Context, l *Leadership) error {
		if calls++; calls == 2 {
			return enough
		}
		<-ctx.Done()
		return ctx.Err()
	})
	if err != enough || calls != 2 {
		t.Fatalf("%v after %d calls", err, calls)
	}
	node.expect("resign")
}

func TestObserve(t *testing.T) {
	node := newFakeNode(t, func(w http.ResponseWriter, _ *http.Request, _ request) {
		_, _ = w.Write([]byte("event: leader\ndata: {\"leader\":2,\"token\":5,\"value\":\"a\"}\n\n: \n\ndata: {\"leader\":null,\"token\":null}\n\n"))
	}).start()
	var seen []Leader
	err := newTestClient(t, node.server.URL).Election("x", Options{}).Observe(context.Background(), func(leader Leader) bool {
		seen = append(seen, leader)
		return len(seen) < 2
	})
	if err != nil || seen[0] != (Leader{2, 5, "a"}) || seen[1] != (Leader{}) {
		t.Fatalf("%v, %v", err, seen)
	}
}

func TestTurnIsTakenByASecondRequest(t *testing.T) {
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "campaign" && got.body.Session == "" {
			w.WriteHeader(http.StatusAccepted)
			_, _ = w.Write([]byte(`{"session":"77","queue_position":0,"your_turn":true,"retry_before_ms":1000,"waited_ms":9000}`))
			return
		}
		granting(time.Minute)(w, r, got)
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{}))
	if node.expect("campaign").body.Session != "" || node.expect("campaign").body.Session != "77" {
		t.Fatal("the second campaign has the session of the first")
	}
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
}

func TestValueIsSetAgainUntilTheNodeAnswers(t *testing.T) {
	var tries atomic.Int32
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		switch {
		case got.action == "value" && got.body.Value == "long":
			refuses(w, http.StatusBadRequest, "")
		case got.action == "value" && got.body.Value == "late":
			refuses(w, http.StatusConflict, "expired")
		case got.action == "value" && tries.Add(1) == 1:
			refuses(w, http.StatusServiceUnavailable, "")
		default:
			granting(time.Minute)(w, r, got)
		}
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{Value: "first"}))
	if got := node.expect("campaign"); got.body.Value != "first" {
		t.Fatalf("%+v", got)
	}
	if err := l.SetValue(context.Background(), "second"); err != nil || tries.Load() != 2 {
		t.Fatalf("%v after %d tries", err, tries.Load())
	}
	var refused *NodeError
	if err := l.SetValue(context.Background(), "long"); !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if err := l.SetValue(context.Background(), "late"); err != ErrLost {
		t.Fatal(err)
	}
}

func TestDefaultEndpoints(t *testing.T) {
	socket := newFakeNode(t, granting(time.Second)).startLocal()
	path := strings.TrimPrefix(socket, "unix:")
	for _, c := range []struct {
		variable, socket string
		want             []string
	}{
		{"", "/no.sock", []string{"http://127.0.0.1:7480"}},
		{"", path, []string{socket}},
		{"http://a:1, https://b:2", "/no.sock", []string{"http://a:1", "https://b:2"}},
		{"http://a:1", path, []string{socket, "http://a:1"}},
	} {
		t.Setenv("SUFFRAGE_NODE", c.variable)
		if got := defaultEndpoints(c.socket); strings.Join(got, " ") != strings.Join(c.want, " ") {
			t.Errorf("%+v: %v", c, got)
		}
	}
	for _, wrong := range []string{"", "ftp://x", "127.0.0.1:7480", "unix:"} {
		var config *ConfigError
		if _, err := New(Config{Endpoints: []string{wrong}}); !errors.As(err, &config) {
			t.Fatalf("%q: %v", wrong, err)
		}
	}
}

func TestValidityOfARenewalCountsFromBeforeIt(t *testing.T) {
	const validFor = time.Second
	received := make(chan Moment, 100)
	node := newFakeNode(t, func(w http.ResponseWriter, r *http.Request, got request) {
		if got.action == "renew" {
			received <- Now()
			time.Sleep(100 * time.Millisecond)
		}
		granting(validFor)(w, r, got)
	}).start()
	l := mustLead(t, newTestClient(t, node.server.URL).Election("x", Options{}))
	first := l.Deadline()
	renewed := <-received
	for l.Deadline() == first {
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	// The next renewal is not due yet.
	if deadline := l.Deadline(); deadline > renewed+Moment(validFor) {
		t.Fatalf("the lease is %v too long", time.Duration(deadline-renewed)-validFor)
	}
}
