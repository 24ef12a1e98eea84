-- Runs the health check of Argo CD's ConfigMap: lua5.1 health-test.lua SCRIPT
-- Prints the cases for Argo CD's own test of such a script: lua5.1 health-test.lua --cases
-- (a line each: name, status, message, object as JSON; the unit separator of ASCII between them)
-- Each case is an object as the kube-apiserver has it, and the answer that kstatus gives.
local script = arg[1]

local function object(generation, observed, conditions)
  return {
    metadata = {name = "policy-reports", generation = generation},
    status = {observedGeneration = observed, conditions = conditions},
  }
end

local function condition(kind, status, message)
  return {type = kind, status = status, reason = "Any", message = message}
end

local deleted = object(1, 1, {condition("Ready", "True", "served")})
deleted.metadata.deletionTimestamp = "2026-01-01T00:00:00Z"

local cases = {
  {"nothing written yet", {metadata = {generation = 1}}, "Progressing"},
  {"no condition yet", {metadata = {generation = 1}, status = {observedGeneration = 1}}, "Progressing"},
  {"served", object(2, 2, {condition("Ready", "True", "served")}), "Healthy", "served"},
  {"changed since", object(3, 2, {condition("Ready", "True", "served")}), "Progressing"},
  {"stalled before the change", object(3, 2, {condition("Stalled", "True", "refused")}), "Progressing"},
  {"not served yet", object(2, 2, {condition("Ready", "False", "no server")}), "Progressing", "no server"},
  {"unknown", object(2, 2, {condition("Ready", "Unknown", "no answer")}), "Progressing", "no answer"},
  {
    "at work while served",
    object(2, 2, {condition("Ready", "True", "served"), condition("Reconciling", "True", "12/100")}),
    "Progressing", "12/100",
  },
  {
    "work is over",
    object(2, 2, {condition("Reconciling", "False", "done"), condition("Ready", "True", "served")}),
    "Healthy", "served",
  },
  {
    "somebody has to act",
    object(2, 2, {
      condition("Ready", "False", "refused"), condition("Reconciling", "True", "12/100"),
      condition("Stalled", "True", "spec.apis[0] is refused"),
    }),
    "Degraded", "spec.apis[0] is refused",
  },
  {"going", deleted, "Progressing"},
}

-- Returns a value as JSON. A table with a first element is a list.
local function json(value)
  if type(value) ~= "table" then
    return type(value) == "string" and string.format("%q", value) or tostring(value)
  end
  local members = {}
  for key, member in pairs(value) do
    table.insert(members, value[1] and json(member) or json(key) .. ":" .. json(member))
  end
  local all = table.concat(members, ",")
  return value[1] and "[" .. all .. "]" or "{" .. all .. "}"
end

if script == "--cases" then
  for _, case in ipairs(cases) do
    local given = case[2]
    given.apiVersion, given.kind = "reports-server.io/v1alpha1", "ReportsServer"
    print(table.concat({case[1], case[3], case[4] or "", json(given)}, "\31"))
  end
  os.exit(0)
end

local failed = 0
for _, case in ipairs(cases) do
  local name, given, status, message = case[1], case[2], case[3], case[4]
  local check = assert(loadfile(script))
  -- What Argo CD gives a check, and nothing more: no files, no programs.
  setfenv(check, {obj = given, ipairs = ipairs, pairs = pairs, string = string, table = table})
  local health = check()
  local right = health.status == status and (message == nil or health.message == message)
  if not right or type(health.message) ~= "string" then
    failed = failed + 1
    print(("%s: %s (%s), expected %s"):format(name, tostring(health.status), tostring(health.message), status))
  end
end
print(("%d cases, %d failed"):format(#cases, failed))
os.exit(failed == 0 and 0 or 1)
