package access

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/flowcontrol"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/record"
)

const (
	// allowedLife is how long the API server's yes counts: a scrape in 15 s asks it
	// nothing nineteen times of twenty.
	allowedLife = 5 * time.Minute
	// allowedLong is how long it counts while the API server does not answer: metrics
	// are wanted then more than ever.
	allowedLong = time.Hour
	refusedLife = 30 * time.Second
	mostKnown   = 256             // answers in memory
	patience    = 4 * time.Second // of a caller while the API server is asked
	longestSent = 16 << 10        // bytes of a token
	most, burst = float32(2), 10  // questions a second: strangers cost the API server no more
	logEvery    = time.Minute     // that the API server does not answer
	scheme      = "Bearer "       // of Authorization
	challenge   = "Bearer realm=\"berth agent\""
)

// verdict is what the API server says of a caller.
type verdict int

const (
	allowed verdict = iota
	stranger
	forbidden
)

// known is a verdict that was given at a time.
type known struct {
	verdict verdict
	user    string
	at      time.Time
}

// reviewer asks the API server who callers are and whether they may get a path.
type reviewer struct {
	api   kubernetes.Interface
	log   *slog.Logger
	now   func() time.Time
	limit flowcontrol.RateLimiter

	mu    sync.Mutex
	known map[[sha256.Size]byte]known // by the token, its audience, and the path
	said  time.Time                   // that the API server does not answer
}

func newReviewer(a kubernetes.Interface, log *slog.Logger, now func() time.Time) *reviewer {
	return &reviewer{
		api: a, log: log, now: now, known: map[[sha256.Size]byte]known{},
		limit: flowcontrol.NewTokenBucketRateLimiter(most, burst),
	}
}

// roleOf names the ClusterRole that lets its subjects get a path.
func roleOf(path string) string {
	if path == record.Path {
		return api.RecordRole
	}
	return api.MetricsRole
}

// guard passes requests on to next if the API server lets their sender get their path.
func (r *reviewer) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		path := req.URL.Path
		token, audience := sent(req)
		if token == "" || len(token) > longestSent {
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "metrics contain pod names, and so does the record: send the token of a ServiceAccount that can get the nonResourceURL "+path+", as the ClusterRole "+roleOf(path)+" allows", http.StatusUnauthorized)
			return
		}
		k, err := r.ask(req.Context(), token, audience, path)
		switch {
		case err != nil:
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the API server did not answer the token review", http.StatusServiceUnavailable)
		case k.verdict == stranger:
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "the API server does not know this token", http.StatusUnauthorized)
		case k.verdict == forbidden:
			http.Error(w, k.user+" may not get the nonResourceURL "+path+"; the ClusterRole "+roleOf(path)+" allows it", http.StatusForbidden)
		default:
			next.ServeHTTP(w, req)
		}
	})
}

// sent is the token of a request, and its required audience; "" is the API server.
func sent(req *http.Request) (token, audience string) {
	if token = req.Header.Get(api.MetricsTokenHeader); token != "" {
		return token, api.MetricsAudience
	}
	token, ok := strings.CutPrefix(req.Header.Get("Authorization"), scheme)
	if !ok {
		return "", ""
	}
	return strings.TrimSpace(token), ""
}

// ask returns what is known of a token and a path, or asks the API server.
func (r *reviewer) ask(ctx context.Context, token, audience, path string) (known, error) {
	key := sha256.Sum256([]byte(path + "\x00" + audience + "\x00" + token))
	now := r.now()
	r.mu.Lock()
	have, ok := r.known[key]
	r.mu.Unlock()
	age := now.Sub(have.at)
	if ok && (have.verdict == allowed && age < allowedLife || have.verdict != allowed && age < refusedLife) {
		return have, nil
	}
	k, err := r.review(ctx, token, audience, path)
	if err != nil {
		if ok && have.verdict == allowed && age < allowedLong {
			return have, nil
		}
		r.complain(ctx, err)
		return known{}, err
	}
	k.at = now
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, ok := r.known[key]; !ok && len(r.known) >= mostKnown {
		r.forget()
	}
	r.known[key] = k
	return k, nil
}

// forget drops the oldest answer: a refusal, if there is one.
func (r *reviewer) forget() {
	var oldest [sha256.Size]byte
	var is known
	first := true
	for key, k := range r.known {
		older := k.at.Before(is.at)
		if refused, was := k.verdict != allowed, is.verdict != allowed; refused != was {
			older = refused
		}
		if first || older {
			oldest, is, first = key, k, false
		}
	}
	delete(r.known, oldest)
}

var errTooMany = errors.New("too many new callers to check at the API server; try again later")

// review asks the API server who has a token, and whether they may get a path.
func (r *reviewer) review(ctx context.Context, token, audience, path string) (known, error) {
	if !r.limit.TryAccept() {
		return known{}, errTooMany
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	who := &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token}}
	if audience != "" {
		who.Spec.Audiences = []string{audience}
	}
	who, err := r.api.AuthenticationV1().TokenReviews().Create(ctx, who, metav1.CreateOptions{})
	if err != nil {
		return known{}, fmt.Errorf("review a token at the API server: %w", err)
	}
	if !who.Status.Authenticated || audience != "" && len(who.Status.Audiences) == 0 {
		return known{verdict: stranger}, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := r.api.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: path, Verb: "get"},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return known{}, fmt.Errorf("check at the API server whether %s can get %s: %w", user.Username, path, err)
	}
	if !may.Status.Allowed {
		return known{verdict: forbidden, user: user.Username}, nil
	}
	return known{verdict: allowed, user: user.Username}, nil
}

// complain logs that the API server could not be asked, now and then.
func (r *reviewer) complain(ctx context.Context, err error) {
	r.mu.Lock()
	now := r.now()
	due := now.Sub(r.said) >= logEvery
	if due {
		r.said = now
	}
	r.mu.Unlock()
	if due && ctx.Err() == nil {
		r.log.Warn("a scrape failed", "error", err)
	}
}
