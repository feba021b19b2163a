package suffrage

import (
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// patience is how long a test waits for a condition before it fails.
const patience = 20 * time.Second

// request is a request that a fake node has received.
type request struct {
	action string
	body   campaignBody
	token  string
}

// fakeNode is a node that answers as a test wants, and keeps all requests.
type fakeNode struct {
	t        *testing.T
	server   *httptest.Server
	requests chan request
	// answer writes the response to a request of an action.
	answer func(w http.ResponseWriter, r *http.Request, got request)
}

func newFakeNode(t *testing.T, answer func(w http.ResponseWriter, r *http.Request, got request)) *fakeNode {
	node := &fakeNode{t: t, requests: make(chan request, 1000), answer: answer}
	node.server = httptest.NewUnstartedServer(node)
	t.Cleanup(func() {
		node.server.CloseClientConnections()
		node.server.Close()
	})
	return node
}

func (n *fakeNode) start() *fakeNode {
	n.server.Start()
	return n
}

// startLocal serves a Unix socket, and returns the endpoint.
func (n *fakeNode) startLocal() string {
	path := filepath.Join(n.t.TempDir(), "node.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		n.t.Fatal(err)
	}
	n.server.Listener.Close()
	n.server.Listener = listener
	n.server.Start()
	return "unix:" + path
}

func (n *fakeNode) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	got := request{token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")}
	got.action = r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	text, _ := io.ReadAll(r.Body)
	if err := json.Unmarshal(text, &got.body); err != nil && r.Method == http.MethodPost {
		n.t.Errorf("%s %s has the body %q", r.Method, r.URL, text)
	}
	n.requests <- got
	n.answer(w, r, got)
}

// expect waits for a request of this action, and passes over others.
func (n *fakeNode) expect(action string) request {
	n.t.Helper()
	timeout := time.After(patience)
	for {
		select {
		case got := <-n.requests:
			if got.action == action {
				return got
			}
		case <-timeout:
			n.t.Fatalf("the node got no %s", action)
		}
	}
}

func leads(w http.ResponseWriter, token uint64, validFor time.Duration) {
	body := map[string]any{"session": "0123", "token": token, "valid_for_ms": validFor.Milliseconds()}
	_ = json.NewEncoder(w).Encode(body)
}

func refuses(w http.ResponseWriter, status int, reason string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"error": "refused with token: " + reason, "reason": reason})
}

// granting answers every campaign and renewal with a lease.
func granting(validFor time.Duration) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, _ *http.Request, got request) {
		if got.action == "resign" {
			_, _ = w.Write([]byte(`{"within_ms":0}`))
			return
		}
		leads(w, 7, validFor)
	}
}

func newTestClient(t *testing.T, endpoints ...string) *Client {
	t.Helper()
	client, err := New(Config{Endpoints: endpoints})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func mustLead(t *testing.T, election *Election) *Leadership {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	leadership, err := election.Lead(ctx)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resign(t, leadership) })
	return leadership
}

func resign(t *testing.T, leadership *Leadership) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := leadership.Resign(ctx); err != nil {
		t.Error(err)
	}
}

func wait(t *testing.T, what string, done <-chan struct{}) {
	t.Helper()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s has not happened", what)
	}
}
