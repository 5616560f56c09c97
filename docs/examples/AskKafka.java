import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.PartitionInfo;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Asks over Kafka: sends a request, and waits for the answer with its id.
 *
 * <p>It needs org.apache.kafka:kafka-clients and com.fasterxml.jackson.core:jackson-databind.
 */
public final class AskKafka implements AutoCloseable {
    /** A request is known by its pool and its id. */
    private record Asked(String pool, String requestId) {}

    private static final ObjectMapper JSON = new ObjectMapper();

    private final String prefix;
    private final KafkaProducer<String, byte[]> producer;
    private final KafkaConsumer<byte[], byte[]> consumer;
    private final Map<Asked, CompletableFuture<JsonNode>> waiting = new ConcurrentHashMap<>();
    private final Thread thread = new Thread(this::follow, "answers");
    private volatile boolean ending;

    public AskKafka(String brokers, String prefix) {
        this.prefix = prefix;
        // Java partitions keys by murmur2, which the service expects unless told otherwise.
        producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", brokers, "acks", "all"),
                new StringSerializer(),
                new ByteArraySerializer());
        // Every asker reads all answers, so there is no group; and only what was committed.
        consumer = new KafkaConsumer<>(
                Map.of("bootstrap.servers", brokers, "isolation.level", "read_committed"),
                new ByteArrayDeserializer(),
                new ByteArrayDeserializer());
        List<TopicPartition> places = new ArrayList<>();
        for (String topic : List.of(prefix + "assignments", prefix + "dead-letters")) {
            for (PartitionInfo info : consumer.partitionsFor(topic)) {
                places.add(new TopicPartition(topic, info.partition()));
            }
        }
        consumer.assign(places);
        consumer.seekToEnd(places);
        places.forEach(consumer::position); // known before anything is sent: no answer is missed
        thread.start();
    }

    /** Appends an event, keyed by its pool; returns when it is durable. */
    public void send(String topic, String pool, ObjectNode event)
            throws IOException, InterruptedException, ExecutionException {
        byte[] value = JSON.writeValueAsBytes(event.put("pool", pool));
        producer.send(new ProducerRecord<>(prefix + topic, pool, value)).get();
    }

    /** Sends a request; the answer is there when the future is done. */
    public CompletableFuture<JsonNode> ask(String pool)
            throws IOException, InterruptedException, ExecutionException {
        Asked asked = new Asked(pool, UUID.randomUUID().toString());
        CompletableFuture<JsonNode> answer = new CompletableFuture<>();
        waiting.put(asked, answer);
        send("requests", pool, JSON.createObjectNode().put("request_id", asked.requestId()));
        return answer;
    }

    private void follow() {
        while (!ending) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(200))) {
                try {
                    take(record.topic().endsWith("dead-letters"), JSON.readTree(record.value()));
                } catch (IOException notJson) {
                    continue; // what others sent may be anything
                }
            }
        }
        consumer.close();
    }

    /** Hands an answer over; a copy of it, or a repeat, finds nobody waiting. */
    private void take(boolean letter, JsonNode event) throws IOException {
        // A dead letter has the bytes of the request.
        JsonNode request = letter ? JSON.readTree(event.path("value").binaryValue()) : event;
        if (!letter && !event.path("type").asText().equals("assignment")) {
            return;
        }
        Asked asked = new Asked(
                request.path("pool").asText(), request.path("request_id").asText());
        CompletableFuture<JsonNode> answer = waiting.remove(asked);
        if (answer != null && letter) {
            String why = event.path("reason").asText() + ": " + event.path("message").asText();
            answer.completeExceptionally(new IllegalArgumentException(why));
        } else if (answer != null) {
            answer.complete(event);
        }
    }

    @Override
    public void close() throws InterruptedException {
        ending = true;
        thread.join();
        producer.close();
    }

    /** Asks each pool for an arm, prints it, and sends a reward. */
    public static void main(String[] arguments) throws Exception {
        try (AskKafka asker = new AskKafka(arguments[0], arguments[1])) {
            Map<String, CompletableFuture<JsonNode>> answers = new LinkedHashMap<>();
            for (String pool : List.of(arguments).subList(2, arguments.length)) {
                answers.put(pool, asker.ask(pool));
            }
            for (Map.Entry<String, CompletableFuture<JsonNode>> each : answers.entrySet()) {
                try {
                    JsonNode event = each.getValue().get(60, TimeUnit.SECONDS);
                    System.out.println(each.getKey() + " " + event.path("arm").asText());
                    String id = event.path("request_id").asText();
                    ObjectNode reward = JSON.createObjectNode().put("request_id", id);
                    asker.send("rewards", each.getKey(), reward.put("value", 1.0));
                } catch (ExecutionException refused) {
                    System.out.println(each.getKey() + " " + refused.getCause().getMessage());
                }
            }
        }
    }
}
