package leaderelection

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	suffrage "github.com/suffrage-rs/suffrage/clients/go"
)

// node is a fake node that grants every lease until it is told to revoke.
type node struct {
	revoke   atomic.Bool
	resigned atomic.Bool
}

func (n *node) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/observe"):
		_, _ = w.Write([]byte("data: {\"leader\":2,\"token\":3}\n\n"))
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/resign"):
		n.resigned.Store(true)
		_, _ = w.Write([]byte(`{"within_ms":0}`))
	case strings.HasSuffix(r.URL.Path, "/renew") && n.revoke.Load():
		w.WriteHeader(http.StatusConflict)
		_, _ = w.Write([]byte(`{"error":"revoked","reason":"revoked"}`))
	default:
		_ = json.NewEncoder(w).Encode(map[string]any{"session": "1", "token": 7, "valid_for_ms": 900})
	}
}

func config(t *testing.T, n *node) LeaderElectionConfig {
	server := httptest.NewServer(n)
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)
	client, err := suffrage.New(suffrage.Config{Endpoints: []string{server.URL}})
	if err != nil {
		t.Fatal(err)
	}
	return LeaderElectionConfig{
		Lock:            Lock{Client: client, Election: "x", Identity: "me"},
		LeaseDuration:   time.Second,
		ReleaseOnCancel: true,
		Callbacks: LeaderCallbacks{
			OnStartedLeading: func(context.Context) {},
			OnStoppedLeading: func() {},
		},
	}
}

func TestCallbacksInOrder(t *testing.T) {
	n := new(node)
	config := config(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	leaders := make(chan string, 10)
	var elector *LeaderElector
	working, stopped := false, false
	config.Callbacks.OnNewLeader = func(identity string) { leaders <- identity }
	config.Callbacks.OnStartedLeading = func(ctx context.Context) {
		working = true
		if leadership := FromContext(ctx); leadership == nil || leadership.Token() != 7 || !elector.IsLeader() {
			t.Error("it does not lead")
		}
		// Stops when this program leads, and the callback has said so.
		for identity := range leaders {
			if identity == "me" {
				break
			}
		}
		cancel()
		<-ctx.Done()
		if n.resigned.Load() {
			t.Error("the lease was released before the work had stopped")
		}
		working = false
	}
	config.Callbacks.OnStoppedLeading = func() {
		stopped = true
		if working || !n.resigned.Load() {
			t.Errorf("working %v, resigned %v", working, n.resigned.Load())
		}
	}
	elector, err := NewLeaderElector(config)
	if err != nil {
		t.Fatal(err)
	}
	elector.Run(ctx)
	if !stopped || elector.IsLeader() || elector.GetLeader() != "me" {
		t.Fatalf("stopped %v, leader %s", stopped, elector.GetLeader())
	}
}

func TestHandOverEndsRun(t *testing.T) {
	n := new(node)
	n.revoke.Store(true)
	config := config(t, n)
	config.Callbacks.OnStartedLeading = func(ctx context.Context) { <-ctx.Done() }
	RunOrDie(context.Background(), config)
	if !n.resigned.Load() {
		t.Fatal("the lease is not released")
	}
}

func TestWithoutReleaseTheLeaseEndsByItself(t *testing.T) {
	n := new(node)
	config := config(t, n)
	config.ReleaseOnCancel = false
	for i := 0; i < 2; i++ {
		ctx, cancel := context.WithCancel(context.Background())
		config.Callbacks.OnStartedLeading = func(ctx context.Context) { cancel() }
		config.Callbacks.OnStoppedLeading = func() {
			if i == 0 && n.resigned.Load() {
				t.Error("the lease is released")
			}
		}
		RunOrDie(ctx, config)
	}
}

func TestWorkThatDoesNotStopIsNotReleased(t *testing.T) {
	n := new(node)
	config := config(t, n)
	ctx, cancel := context.WithCancel(context.Background())
	release := make(chan struct{})
	defer close(release)
	var leadership *suffrage.Leadership
	config.Callbacks.OnStartedLeading = func(ctx context.Context) {
		leadership = FromContext(ctx)
		cancel()
		<-release
	}
	config.Callbacks.OnStoppedLeading = func() {
		if leadership.Err() != suffrage.ErrExpired {
			t.Errorf("the lease ended although the work goes on: %v", leadership.Err())
		}
	}
	RunOrDie(ctx, config)
}

func TestConfigurationIsChecked(t *testing.T) {
	for name, breakIt := range map[string]func(*LeaderElectionConfig){
		"client":   func(c *LeaderElectionConfig) { c.Lock.Client = nil },
		"election": func(c *LeaderElectionConfig) { c.Lock.Election = "" },
		"lease":    func(c *LeaderElectionConfig) { c.LeaseDuration = 0 },
		"renew":    func(c *LeaderElectionConfig) { c.RenewDeadline = c.LeaseDuration },
		"margin":   func(c *LeaderElectionConfig) { c.RenewDeadline = c.LeaseDuration / 2 },
		"started":  func(c *LeaderElectionConfig) { c.Callbacks.OnStartedLeading = nil },
		"stopped":  func(c *LeaderElectionConfig) { c.Callbacks.OnStoppedLeading = nil },
	} {
		config := config(t, new(node))
		breakIt(&config)
		if _, err := NewLeaderElector(config); err == nil {
			t.Errorf("%s: the configuration is accepted", name)
		}
	}
}
