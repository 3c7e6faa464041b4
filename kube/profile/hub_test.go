package profile_test

import (
	"strings"
	"testing"

	"berth.dev/berth/api"
	"berth.dev/berth/kube/profile"
)

// rows: ML-21
func TestWhatAHubSaysBesideTheSection(t *testing.T) {
	const profiles = "singleuser: {memory: {guarantee: 2G}, profileList: [{display_name: A}]}\n"
	for name, tt := range map[string]struct {
		text, user string
		notebook   string // its name
		claim      string
		session    string
		finding    string
	}{
		"names by today's scheme": {"", "ada@example.com", "jupyter-ada-example-com---b5fc85e5", "claim-ada-example-com---b5fc85e5", "", ""},
		"names by the older scheme": {
			"hub: {config: {KubeSpawner: {slug_scheme: escape}}}", "ada@example.com", "jupyter-ada-40example-2ecom", "claim-ada-40example-2ecom", "", "",
		},
		"a long name by the older scheme": {
			"hub: {config: {KubeSpawner: {slug_scheme: escape}}}", strings.Repeat("ada.", 12), "jupyter-ada-ada-ada-ada-ada-ada-ada-ada-a---3da8b060", "claim-" + strings.Repeat("ada-2e", 12), "", "",
		},
		"a scheme that is none": {"hub: {config: {KubeSpawner: {slug_scheme: old}}}", "", "", "", "", "hub.yaml:2: hub.config.KubeSpawner.slug_scheme: old: it is safe or escape"},
		"a limit of sessions":   {"cull: {maxAge: 43200}", "ada", "jupyter-ada", "claim-ada", "43200s", ""},
		"without a limit":       {"cull: {maxAge: 0, every: 60}", "ada", "jupyter-ada", "claim-ada", "", "hub.yaml:2: cull: not used: a hub stops idle servers by it"},
		"no culling":            {"cull: {enabled: false, maxAge: 43200}", "ada", "jupyter-ada", "claim-ada", "", ""},
		"a limit that is none":  {"cull: {maxAge: -5}", "", "", "", "", "hub.yaml:2: cull.maxAge: -5 must be a whole number of seconds"},
		"Python code":           {"hub: {extraConfig: {a: \"c.x = 1\"}}", "ada", "jupyter-ada", "claim-ada", "", "hub.yaml:2: hub.extraConfig: not used: Python code"},
		"a password for all": {
			"hub:\n  config:\n    Authenticator: {admin_users: [admin]}\n    DummyAuthenticator: {password: jupyter123}\n    JupyterHub: {authenticator_class: dummy}\n",
			"ada", "jupyter-ada", "claim-ada", "", "hub.yaml:5: hub.config.DummyAuthenticator: not used: users are those of the cluster",
		},
		"a priority":         {"scheduling: {podPriority: {enabled: true}}", "ada", "jupyter-ada", "claim-ada", "", "hub.yaml:2: scheduling.podPriority: not used: its PriorityClass is the chart's"},
		"no priority":        {"scheduling: {podPriority: {enabled: false, defaultPriority: 5}}", "ada", "jupyter-ada", "claim-ada", "", ""},
		"an unknown setting": {"hub: {config: {KubeSpawner: {frobnicate: 1}}}", "ada", "jupyter-ada", "claim-ada", "", "hub.yaml:2: frobnicate: nothing reads this key in hub.config.KubeSpawner"},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := stack(profiles + tt.text)
			if err != nil {
				t.Fatal(err)
			}
			list := objects(t, f)
			f.Check()
			var findings []string
			for i := range f.Findings {
				if text := f.Findings[i].String(); !strings.Contains(text, "sample image") {
					findings = append(findings, text)
				}
			}
			if all := strings.Join(findings, "\n"); (all == "") != (tt.finding == "") || !strings.HasPrefix(all, tt.finding) {
				t.Errorf("findings %q, want %q", all, tt.finding)
			}
			if tt.user == "" {
				return
			}
			nb, claim, _, err := profile.Render(&list[0], profile.Choices{User: tt.user})
			if err != nil {
				t.Fatal(err)
			}
			if session := nb.Annotations[api.AnnotationMaxSession]; nb.Name != tt.notebook || claim.Name != tt.claim || session != tt.session {
				t.Errorf("notebook %s, claim %s, session %q; want %s, %s, %q", nb.Name, claim.Name, session, tt.notebook, tt.claim, tt.session)
			}
		})
	}
}

// Only the settings of users' pods are read from hub.config: the rest has secrets.
func TestSecretsOfAHubStayInItsFile(t *testing.T) {
	f, err := stack("hub: {cookieSecret: hidden, config: {GitHubOAuthenticator: {client_secret: hidden}, KubeSpawner: {gid: 5}}, services: {a: {apiToken: hidden}}}\n" +
		"singleuser: {profileList: [{display_name: A}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	if base := string(f.Profiles[0].Spec.Base); strings.Contains(base, "hidden") || !strings.Contains(base, `"gid":5`) {
		t.Errorf("the profile has %s", base)
	}
}
