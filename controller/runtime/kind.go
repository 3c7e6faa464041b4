package runtime

import (
	"fmt"
	"reflect"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/view"
)

// Mode is how far Berth goes with a kind that another controller may run too.
type Mode string

// The modes.
const (
	Own    Mode = "own"    // Berth runs the kind
	Govern Mode = "govern" // another controller runs it; Berth uses the levers that it honors
	Off    Mode = "off"    // Berth leaves it alone
)

// Auto is the setting that chooses the mode from the cluster: Govern while another
// controller of the kind runs there, else Own.
const Auto = "auto"

// Settings returns what a kind can be set to: Auto and the modes.
func Settings() []string { return []string{Auto, string(Own), string(Govern), string(Off)} }

// Kind is one kind of object that Berth's controllers run, with all that the
// process must know of it.
type Kind struct {
	// Name is the kind's name in the singular, such as "Notebook". Its plural in
	// lower case is the key of its mode in the record of modes.
	Name string
	// Setting is Auto or a mode; "" is Auto.
	Setting string
	// Upstream is the name of the project's own controller of the kind: the value
	// of the label app on its Deployment, and the end of the name of its image; "" is
	// that there is none.
	Upstream string
	// Scheme adds the kind's types.
	Scheme func(*runtime.Scheme) error
	// Cache says which objects the kind's controllers watch and which of their
	// fields they keep. No two kinds may name the same type of object.
	Cache func() cache.Options
	// Rules are the rights that its controllers need in the whole cluster.
	Rules []rbacv1.PolicyRule
	// Add adds its controllers to a manager. It is not called in mode Off.
	Add func(manager.Manager, ModeSource) error
}

// ModeSource tells the controllers of a kind its mode.
type ModeSource struct {
	// Now returns the mode of this moment. It blocks until the Deployments of the
	// cluster have been seen. Nil is Own.
	Now func() Mode
	// Changed, if not nil, gets an event, whose object means nothing, each time Now
	// returns another mode.
	Changed <-chan event.GenericEvent
}

// plural returns the key of the kind in the record of modes, such as "notebooks".
func (k *Kind) plural() string { return strings.ToLower(k.Name) + "s" }

// setting returns Auto or a mode.
func (k *Kind) setting() string {
	if k.Setting == "" {
		return Auto
	}
	return k.Setting
}

// off reports whether the kind is set to be left alone.
func (k *Kind) off() bool { return k.Setting == string(Off) }

// isUpstream reports whether a Deployment is the other controller of the kind,
// whether it runs or not. Its image may be built by others: Open Data Hub's is
// odh-kf-notebook-controller.
func (k *Kind) isUpstream(d *appsv1.Deployment) bool {
	if k.Upstream == "" {
		return false
	}
	if d.Labels["app"] == k.Upstream {
		return true
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if strings.HasSuffix(view.ImageName(c.Image), k.Upstream) {
			return true
		}
	}
	return false
}

// cacheOptions returns what all kinds watch and keep, and of Deployments what
// isUpstream reads. Those of model services, of which there may be many, are none of a controller.
func cacheOptions(kinds []Kind) (cache.Options, error) {
	others, err := labels.NewRequirement(api.LabelInferenceService, selection.DoesNotExist, nil)
	if err != nil {
		return cache.Options{}, fmt.Errorf("select Deployments of controllers: %w", err)
	}
	shared := true
	o := cache.Options{ByObject: map[client.Object]cache.ByObject{
		&appsv1.Deployment{}: {Label: labels.NewSelector().Add(*others), Transform: slimDeployment, UnsafeDisableDeepCopy: &shared},
	}}
	owner := map[reflect.Type]string{reflect.TypeFor[*appsv1.Deployment](): "all kinds"}
	for _, k := range kinds {
		for object, by := range k.Cache().ByObject {
			t := reflect.TypeOf(object)
			if other := owner[t]; other != "" {
				return o, fmt.Errorf("%s and %s both say what to keep of %v", other, k.Name, t)
			}
			owner[t], o.ByObject[object] = k.Name, by
		}
	}
	return o, nil
}
