package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/features"

	"berth.dev/berth/internal/buildinfo"
	"berth.dev/berth/internal/pause"
)

// errTooOld is what a scheduler gets from an API server that is too old for it.
var errTooOld = errors.New("is older than the scheduler supports")

// serverPatience is how long an API server that does not answer is asked again.
const serverPatience = 15 * time.Second

// serverVersion asks an API server which version of Kubernetes its API is, as
// MAJOR.MINOR. It returns errTooOld, with both versions named, for one that is
// older than Berth supports. One that does not answer, or that is not ready, is asked
// for serverPatience.
func serverVersion(ctx context.Context, client rest.Interface, host string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, serverPatience)
	defer cancel()
	raw, err := client.Get().AbsPath("/version").DoRaw(ctx)
	for last := err; err != nil && mayPass(err) && pause.For(ctx, 500*time.Millisecond); last = err {
		if raw, err = client.Get().AbsPath("/version").DoRaw(ctx); ctx.Err() != nil {
			err = last // says more than that the time is over
		}
	}
	var info apiversion.Info
	if err == nil {
		err = json.Unmarshal(raw, &info)
	}
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", host, err)
	}
	served, err := minorOf(&info)
	if err != nil {
		return "", fmt.Errorf("version of %s: %w", host, err)
	}
	minors := buildinfo.KubernetesMinors()
	if served.LessThan(version.MustParse(minors[0])) {
		return "", fmt.Errorf("Kubernetes %s at %s %w: it needs %s or newer; upgrade the cluster, or use an older version of Berth", served, host, errTooOld, minors[0])
	}
	return served.String(), nil
}

// mayPass says whether an answer, or that there is none, may be another soon.
func mayPass(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsInternalError(err)
}

// minorOf is the version of the API that a server serves: the one that it emulates,
// where it says so, else its own. Managed clusters write the minor version with a
// sign after it ("33+").
func minorOf(info *apiversion.Info) (*version.Version, error) {
	for _, text := range []string{info.EmulationMajor + "." + info.EmulationMinor, info.Major + "." + info.Minor, info.GitVersion} {
		if v, err := version.ParseGeneric(text); err == nil && v.Major() > 0 {
			return version.MajorMinor(v.Major(), v.Minor()), nil
		}
	}
	return nil, fmt.Errorf("major %q, minor %q, gitVersion %q name no version of Kubernetes", info.Major, info.Minor, info.GitVersion)
}

// emulate sets the feature gates of opts. Where the API server is of an older
// version than the scheduler, it emulates that version: then it lists and writes
// only what there is.
func emulate(opts *options.Options, served string) error {
	minors := buildinfo.KubernetesMinors()
	newest := minors[len(minors)-1]
	if version.MustParse(served).LessThan(version.MustParse(newest)) {
		if err := opts.Flags.FlagSet("feature gate").Set("emulated-version", served); err != nil {
			return fmt.Errorf("emulate Kubernetes %s: %w", served, err)
		}
		klog.InfoS("Emulating an older Kubernetes, as the API server is", "version", served, "own", newest)
	}
	if err := opts.ComponentGlobalsRegistry.Set(); err != nil {
		return fmt.Errorf("feature gates for Kubernetes %s: %w", served, err)
	}
	return nil
}

// gates are feature gates of kube-scheduler that Berth sets.
//
// With NominatedNodeNameForExpectation, every member of a gang that waits for the
// others is written with its node just before it is bound there: one write more
// for each.
var gates = map[string]bool{string(features.NominatedNodeNameForExpectation): false}

// setGates sets gates, as far as the emulated version of Kubernetes has them.
func setGates() error {
	has := utilfeature.DefaultMutableFeatureGate.GetAll()
	set := map[string]bool{}
	for name, on := range gates {
		if _, ok := has[featuregate.Feature(name)]; ok {
			set[name] = on
		}
	}
	if err := utilfeature.DefaultMutableFeatureGate.SetFromMap(set); err != nil {
		return fmt.Errorf("configure kube-scheduler: %w", err)
	}
	return nil
}
