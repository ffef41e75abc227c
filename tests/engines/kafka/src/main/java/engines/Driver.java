package engines;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** A windowed aggregate through TopologyTestDriver: one task, so one partition. */
final class Driver {
    private Driver() {}

    static Map<String, Object> common() {
        Map<String, Object> common = new LinkedHashMap<>();
        common.put("engine", "kafka-streams");
        common.put("version", "4.3.0");
        common.put("runner", "TopologyTestDriver");
        common.put("events", "events.jsonl");
        common.put("retention", "default");
        common.put("caching", false);
        common.put("partitions", 1);
        common.put("commit", "after every record");
        common.put("emit_interval", "0s");
        common.put("wall_clock_per_event", "0s");
        return common;
    }

    static Fixtures.Outcome run(JsonNode settings, List<Fixtures.Event> events) throws Exception {
        Topics topics = new Topics();
        List<Long> dropped = new ArrayList<>();
        Life.Left left = null;
        for (List<Fixtures.Event> part : lives(settings, events)) {
            try (Life life = new Life(settings, topics, left)) {
                feed(life, settings, part);
                dropped.add(life.end());
                left = life.left();
            }
        }
        if (left != null && left.state() != null) {
            Life.delete(left.state());
        }
        Map<String, List<Map<String, Object>>> files = new LinkedHashMap<>();
        files.put("output", topics.output);
        if (settings.get("emit").asText().equals("on_update")) { // otherwise the same
            files.put("changelog", topics.changelog);
        }
        Map<String, Object> observed = Pipeline.observed(topics.output, topics.changelog);
        observed.put("dropped_records_total", dropped);
        return new Fixtures.Outcome(files, observed);
    }

    /** The events of each life of the application. */
    private static List<List<Fixtures.Event>> lives(JsonNode settings, List<Fixtures.Event> events) {
        List<List<Fixtures.Event>> lives = new ArrayList<>();
        int from = 0;
        JsonNode restarts = settings.path("restart_before_arrival");
        for (JsonNode restart : restarts.isInt() ? List.of(restarts) : restarts) {
            lives.add(events.subList(from, restart.asInt()));
            from = restart.asInt();
        }
        lives.add(events.subList(from, events.size()));
        return lives;
    }

    private static void feed(Life life, JsonNode settings, List<Fixtures.Event> events) throws Exception {
        if (!settings.get("commit").isArray()) {
            for (Fixtures.Event event : events) {
                life.takeAndCommit(event);
            }
            return;
        }
        Set<Integer> commits = new HashSet<>();
        settings.get("commit").forEach(arrival -> commits.add(arrival.asInt()));
        for (Fixtures.Event event : events) {
            life.take(event);
            if (commits.contains(event.arrival())) {
                life.commit();
            }
        }
    }

    /** What is in the topics so far, in the columns of the recordings. */
    static final class Topics {
        final List<Map<String, Object>> output = new ArrayList<>();
        final List<Map<String, Object>> changelog = new ArrayList<>();
    }
}
