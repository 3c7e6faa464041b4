package notebook

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/manager"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/controller/idle"
	"berth.dev/berth/controller/runtime"
)

// Kind returns notebooks for the process of the controllers: the reconciler with
// the options o, and the loop that stops idle notebooks. setting is runtime.Auto or
// a mode; "" is Auto. The fields Mode and ModeChanged are set by the process.
func Kind(setting string, o Options, idleOptions idle.Options) runtime.Kind {
	rules := Rules()
	if idleOptions.Proxied {
		rules = slices.Concat(rules, idle.ProxiedRules())
	}
	return runtime.Kind{
		Name: "Notebook", Setting: setting, Upstream: "notebook-controller",
		Scheme: kubeflow.AddToScheme, Cache: CacheOptions, Rules: rules,
		Add: func(mgr manager.Manager, m runtime.ModeSource) error {
			o.Mode, o.ModeChanged, idleOptions.Mode = m.Now, m.Changed, m.Now
			if err := Add(mgr, o); err != nil {
				return err
			}
			if err := idle.Add(mgr, idleOptions); err != nil {
				return fmt.Errorf("add the loop for idle notebooks: %w", err)
			}
			return nil
		},
	}
}
